"""How like real examples made ones are: distances in closed form, and the recorded numbers."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from unalike import rng
from unalike.errors import ConfigError
from unalike.run.build import experiment
from unalike.run.config import parse
from unalike.run.execute import start
from unalike.run.fidelity import coverage, features, frechet, trained
from unalike.run.rounds import rounds


def test_frechet_of_shifted_and_stretched_normals():
    """||m||^2 + sum (1 - s)^2 for independent axes, as the samples have them."""
    draw = np.random.default_rng(0)
    a = draw.normal(size=(20_000, 3))
    b = draw.normal(size=(20_000, 3)) * [1.0, 2.0, 0.5] + [3.0, 0.0, 0.0]
    assert frechet(a, b) == pytest.approx(9 + 1 + 0.25, rel=0.03)
    assert frechet(a, a) == pytest.approx(0, abs=1e-8)


def test_frechet_is_that_of_a_matrix_root():
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=(50, 4)), draw.normal(size=(60, 4)) @ draw.normal(size=(4, 4))
    s, t = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    gap = a.mean(0) - b.mean(0)
    wanted = gap @ gap + np.trace(s + t - 2 * sqrtm(s @ t).real)
    assert frechet(a, b) == pytest.approx(wanted, rel=1e-6)
    assert frechet(a, b) == pytest.approx(frechet(b, a), rel=1e-9)


def test_coverage():
    """Reals in two far groups, of which one has made examples."""
    draw = np.random.default_rng(2)
    near, far = draw.normal(size=(30, 2)), draw.normal(size=(30, 2)) + 100
    real = np.concatenate([near, far])
    assert coverage(real, real) == 1
    assert coverage(real, near) == pytest.approx(0.5)
    assert coverage(real, real[:0]) is None
    assert coverage(real, np.full((3, 2), -1e6)) == 0


def test_the_small_network_tells_classes_apart():
    """And is the same for the same key."""
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(300, 1, 8, 8, generator=draw)
    y = torch.arange(300) % 3
    for c in range(3):
        x[y == c, :, c * 2] += 1.0
    one, other = (features(trained(x, y, 3, rng.key(0)), x) for _ in range(2))
    assert np.array_equal(one, other)
    centres = np.stack([one[y == c].mean(0) for c in range(3)])
    nearest = ((one[:, None] - centres) ** 2).sum(2).argmin(1)
    assert (nearest == y.numpy()).mean() > 0.95


def records(**raw):
    base = {"partition": {"name": "iid", "clients": 4}, "rounds": 2}
    return [s.record for s in rounds(experiment(parse({**base, **raw})))]


@pytest.mark.parametrize("method", ["fedevg", "fedcvae", "fedcgan"])
def test_of_a_run(method):
    made = {"name": method, "per_class": 6, "judge_epochs": 1}
    for record in records(method=made, evaluation={"fidelity": True}):
        assert record["fid"] > 0
        assert record["fid_rows"][1] == 60
        assert len(record["coverage"]) == 10
        assert all(0 <= v <= 1 for v in record["coverage"])


def test_an_extractor_of_ones_own(tmp_path):
    """The mean and the spread of the pixels, by a file."""

    (tmp_path / "own.py").write_text(
        "import torch\n"
        "def moments(x):\n"
        "    flat = x.flatten(1)\n"
        "    return torch.stack([flat.mean(1), flat.std(1)], 1)\n"
    )
    made = {"name": "fedcvae", "per_class": 6, "judge_epochs": 1}
    asked = {"fidelity": True, "extractor": f"{tmp_path / 'own.py'}:moments"}
    assert records(method=made, evaluation=asked, rounds=1)[0]["fid"] < 1


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"evaluation": {"fidelity": True}},
            "method generates none; use it with one of fedevg",
        ),
        (
            {
                "evaluation": {"fidelity": True, "extractor": "nowhere.py:f"},
                "method": {"name": "fedcvae"},
            },
            "names 'nowhere.py', which does not exist",
        ),
    ],
)
def test_what_cannot_be_measured(raw, message):
    with pytest.raises(ConfigError, match=message):
        records(**raw)


def test_a_name_without_a_function():
    asked = {"fidelity": True, "extractor": "features.py"}
    with pytest.raises(ConfigError, match=r"such as 'features\.py:extract'"):
        records(method={"name": "fedcvae"}, evaluation=asked)


def test_what_shows_in_the_first_round_leaves_no_folder(tmp_path):
    raw = {"rounds": 1, "evaluation": {"fidelity": True}, "run": {"folder": str(tmp_path / "run")}}
    with pytest.raises(ConfigError, match="generates none"):
        start(parse(raw))
    assert not (tmp_path / "run").exists()
