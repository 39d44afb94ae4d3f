"""Protected columns: where they lie, and how well adversaries guess them."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from autoencoders import vae
from torch import Tensor, nn

import unalike
from unalike import rng
from unalike.engine.evaluation.probe import Probe
from unalike.errors import ConfigError, DataError
from unalike.federation.data import Examples
from unalike.federation.readers.frames import from_frame
from unalike.network import Network
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.experiment.build import experiment
from unalike.run.experiment.protected import Blinkers
from unalike.run.rounds import rounds
from unalike.tasks import MultiClass


def frame(n: int = 200) -> pl.DataFrame:
    draw = np.random.default_rng(0)
    sex = draw.integers(0, 2, n)
    return pl.DataFrame(
        {
            "a": draw.normal(size=n),
            "b": draw.normal(size=n) + 3 * sex,  # tells it nearly always
            "sex": np.where(sex == 1, "male", "female"),
            "label": draw.integers(0, 2, n),
        }
    )


def test_protected_columns_are_last_and_hidden() -> None:
    table = frame()
    examples = from_frame(table, protected=["sex"])
    assert examples.protected == ("sex",)
    assert examples.x.shape[1] == 3
    assert np.array_equal(examples.x[:, -1].numpy() == 1, table["sex"].to_numpy() == "male")
    hidden = Blinkers(1)(nn.Identity(), (examples.x,))[0]
    assert torch.equal(hidden, examples.x[:, :2])
    with pytest.raises(DataError, match="'a' should be protected but has 200 different values"):
        from_frame(table, protected=["a"])


def test_the_probe_finds_what_is_there_and_nothing_else() -> None:
    """From features that tell the attribute nearly always, and from one that does not."""
    x = from_frame(frame(400), protected=["sex"]).x
    task = MultiClass(Network(nn.Sequential()))
    for columns, low, high in (((1,), 0.9, 1.0), ((0,), 0.35, 0.65)):
        module = Seen(columns)
        probe = Probe(MultiClass(Network(module)), ("sex",), (3,))
        w = {n: p.detach() for n, p in module.named_parameters()}
        (area,) = probe(w, x[:200], x[200:], rng.key(0))
        assert low <= area <= high
        assert probe(w, x[:0], x[200:], rng.key(0)) != probe(w, x[:200], x[200:], rng.key(0))
    assert task.network.head == ()
    with pytest.raises(ConfigError, match="name none"):
        Probe(task, (), (3,))
    with pytest.raises(ConfigError, match="head"):
        Probe(task, ("sex",), (3,))
    with pytest.raises(ConfigError, match="an autoencoder adds noise"):
        Probe(vae(), ("sex",), (1, 4, 4))


class Seen(nn.Module):
    """Its representation is some of the features."""

    head = ("top.",)

    def __init__(self, columns: tuple[int, ...]) -> None:
        super().__init__()
        self.columns, self.top = columns, nn.Linear(len(columns), 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.top(x[:, list(self.columns)])


def test_a_run_measures_both_adversaries(tmp_path: Any) -> None:
    frame().write_parquet(tmp_path / "table.parquet")
    raw = {
        "rounds": 1,
        "data": {
            "name": "files",
            "path": str(tmp_path / "table.parquet"),
            "protected": ["sex"],
        },
        "partition": {"name": "iid", "clients": 2},
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": "lg_fedavg", "local": "adversarial"},
        "evaluation": {"adversary": True},
    }
    local = next(rounds(experiment(parse(raw)))).record["metrics"]["local"]
    assert {"adversary", "fooled"} <= set(local)
    kept = start(
        parse({**raw, "method": {"name": "fedavg"}, "run": {"folder": str(tmp_path / "r")}})
    )
    known, rows = unalike.load(kept), frame(20)
    assert np.array_equal(known.predict(rows), known.predict(rows.drop("sex")))
    plain = {**raw, "method": {"name": "fedavg"}}
    local = next(rounds(experiment(parse(plain)))).record["metrics"]["local"]
    assert "fooled" not in local
    assert 0 <= local["adversary"]["mean"] <= 1


def test_examples_have_no_protected_columns_unless_told() -> None:
    assert Examples(torch.zeros(2, 1), torch.zeros(2).long(), 2).protected == ()


class Given(nn.Module):
    """A network of the user's own, for two features."""

    head = ("top.",)

    def __init__(self) -> None:
        super().__init__()
        self.body, self.top = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.top(torch.tanh(self.body(x)))


def test_no_module_sees_protected_columns_either(tmp_path: Any) -> None:
    """A network given in Python is shown what a named one is."""
    own = Given()
    data = unalike.federate(
        from_frame(frame(), protected=["sex"]), unalike.partitioner("iid", clients=2)
    )
    asked = {"rounds": 1, "evaluation": {"adversary": True}}
    method = {"name": "lg_fedavg", "local": "adversarial"}
    told = unalike.train(data, own, method, **asked).summary["last"]["local"]
    assert {"adversary", "fooled"} <= set(told)
    trained = unalike.train(data, own, **asked)
    rows = data.examples.x[:20].clone()
    assert trained.model is not None
    first = trained.model(rows)
    rows[:, 2] = 1 - rows[:, 2]
    torch.testing.assert_close(trained.model(rows), first, rtol=0, atol=0)
    known, table = unalike.load(trained.save(tmp_path / "r"), module=own), frame(20)
    assert np.array_equal(known.predict(table), known.predict(table.drop("sex")))
    assert not own._forward_pre_hooks
    with pytest.raises(ConfigError, match=r"examples of shape \(2,\), without sex, 1 outputs"):
        unalike.train(data, nn.Linear(3, 1), **asked)
