"""Rows of a file for clients: who gets them, what they cost, and files that do not fit."""

from pathlib import Path

import numpy as np
import pytest

from unalike.errors import ConfigError
from unalike.federation.build import federate
from unalike.federation.data import TEST, TRAIN, Federation
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.federation.shift.given_rows import GivenRows
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.experiment.build import experiment


def written(place: Path, shape: tuple[int, ...] = (1, 8, 8), top: int = 9) -> str:
    y = np.arange(20) % (top + 1)
    np.savez(place / "made.npz", x=np.random.default_rng(0).random((20, *shape)), y=y)
    return str(place / "made.npz")


def made(*shifts: GivenRows) -> Federation:
    return federate(Digits(), Dirichlet(clients=8, alpha=0.3, min_size=5), list(shifts))


def test_the_poorest_train_on_them(tmp_path: Path) -> None:
    plain, given = made(), made(GivenRows(file=written(tmp_path), poorest=0.25))
    before, after = plain.sizes(TRAIN), given.sizes(TRAIN)
    poor = set(np.argsort(before, kind="stable")[:2].tolist())
    assert {int(k) for k in np.flatnonzero(after != before)} == poor
    assert (after - before)[sorted(poor)].tolist() == [20, 20]
    assert (plain.rows(TEST).order == given.rows(TEST).order).all()
    rows = given.rows(TRAIN).of(min(poor))[-20:]
    assert given.examples.y[rows].tolist() == [i % 10 for i in range(20)]
    label, pixel = plain.examples.y.element_size(), plain.examples.x.element_size()
    assert given.handed == 2 * 20 * (64 * pixel + label)


def test_the_synthetic_set_of_a_run_is_put_to_use(tmp_path: Path) -> None:
    """From the folder of one run into the clients of another, counted before its first round."""
    raw = {
        "rounds": 1,
        "partition": {"name": "iid", "clients": 3},
        "model": {"name": "logistic"},
        "local": {"epochs": 0.2},
    }
    evg = {"name": "fedevg", "per_class": 2, "judge_epochs": 1}
    folder = start(parse({**raw, "method": evg, "run": {"folder": str(tmp_path / "one")}}))
    shift = {"name": "given_rows", "file": str(folder / "synthetic.npz")}
    one, other = (experiment(parse({**raw, "shift": some})) for some in ([], [shift]))
    assert (other.federation.sizes(TRAIN) - one.federation.sizes(TRAIN)).tolist() == [20] * 3
    assert other.earlier["bytes_down"] == other.federation.handed > 0


@pytest.mark.parametrize(
    ("shape", "top", "words"),
    [((1, 4, 4), 9, "holds rows of shape"), ((1, 8, 8), 10, "must be classes 0 to 9")],
)
def test_rows_that_are_not_like_the_data(
    tmp_path: Path, shape: tuple[int, ...], top: int, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        made(GivenRows(file=written(tmp_path, shape, top)))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        made(GivenRows(file=str(tmp_path / "none.npz")))
    np.savez(tmp_path / "odd.npz", a=np.zeros(3))
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04 nothing")
    (tmp_path / "text.npz").write_text("x, y")
    for name in ("odd", "noise", "text"):
        with pytest.raises(ConfigError, match="must be an NPZ file"):
            made(GivenRows(file=str(tmp_path / f"{name}.npz")))
