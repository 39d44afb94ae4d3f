"""How like real examples made ones are: distances in closed form, and the recorded numbers."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.linalg import sqrtm

from unalike import rng
from unalike.errors import ConfigError
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.experiment.build import experiment
from unalike.run.folder.origins import code_digests
from unalike.run.measures.extractor import extractor
from unalike.run.measures.fidelity import coverage, features, frechet, kernel_distance, trained
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


def test_kernel_distance():
    """Pair by pair; about 0 for two samples of one distribution, however small."""
    draw = np.random.default_rng(3)
    a, b = draw.normal(size=(7, 4)), draw.normal(size=(5, 4)) + 1

    def mean(x, y, same):
        pairs = [
            (u @ v / 4 + 1) ** 3
            for i, u in enumerate(x)
            for j, v in enumerate(y)
            if not same or i != j
        ]
        return sum(pairs) / len(pairs)

    wanted = mean(a, a, True) + mean(b, b, True) - 2 * mean(a, b, False)
    assert kernel_distance(a, b) == pytest.approx(wanted)
    assert kernel_distance(a, b) == pytest.approx(kernel_distance(b, a))
    pairs = ((draw.normal(size=(9, 2)), draw.normal(size=(8, 2))) for _ in range(800))
    alike = [kernel_distance(*pair) for pair in pairs]
    assert abs(np.mean(alike)) < 3 * np.std(alike) / 800**0.5
    long = draw.normal(size=(1100, 3))  # more rows than are taken at a time
    assert kernel_distance(long, long[::-1]) == pytest.approx(kernel_distance(long[::-1], long))
    assert np.isnan(kernel_distance(a[:1], b))


class Pooled(torch.nn.Module):
    """In the place of timm's network: three weights, and means over a picture."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        assert x.shape[1:] == (3, 299, 299)
        return x.mean((2, 3)) * self.scale


def test_inception(tmp_path, monkeypatch):
    """Images from -1 to 1 in three channels of 299 pixels; weights with or without a head."""
    seen = {}

    def create_model(name, **options):
        seen.update(options, name=name)
        return Pooled()

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))
    weights = {"scale": torch.tensor([1.0, 2.0, 3.0]), "fc.weight": torch.ones(2)}
    path = tmp_path / "w.safetensors"
    save_file(weights, path)
    found = extractor(f"inception:{path}")(torch.full((2, 1, 8, 8), 0.75))
    torch.testing.assert_close(found, torch.tensor([[0.5, 1.0, 1.5]] * 2), rtol=0, atol=1e-5)
    assert seen == {"name": "inception_v3", "pretrained": False, "num_classes": 0}
    with pytest.raises(ConfigError, match="one or three channels"):
        extractor(f"inception:{path}")(torch.zeros(2, 5))
    with pytest.raises(ConfigError, match="there are no weights of Inception"):
        extractor("inception:nowhere.safetensors")
    save_file({"other": torch.ones(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ConfigError, match="are not the weights of inception_v3"):
        extractor(f"inception:{tmp_path / 'other.safetensors'}")
    torch.save(weights, tmp_path / "w.pth")
    with pytest.raises(ConfigError, match=r"is not a \.safetensors file"):
        extractor(f"inception:{tmp_path / 'w.pth'}")
    evaluation = {"fidelity": True, "extractor": f"inception:{path}"}
    made = {"name": "fedcvae", "per_class": 3, "judge_epochs": 1}
    config = parse({"evaluation": evaluation, "method": made})
    assert list(code_digests(config)) == [str(path)]


def test_inception_needs_a_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    save_file({"scale": torch.ones(3)}, tmp_path / "w.safetensors")
    with pytest.raises(ConfigError, match="needs the package 'timm'"):
        extractor(f"inception:{tmp_path / 'w.safetensors'}")


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
            "evaluation.extractor names 'nowhere.py', which does not exist",
        ),
    ],
)
def test_what_cannot_be_measured(raw, message):
    with pytest.raises(ConfigError, match=message):
        records(**raw)


def test_one_row_has_no_spread(tmp_path):
    path = tmp_path / "few.npz"
    np.savez(path, x=np.random.default_rng(0).random((14, 1, 8, 8)), y=np.arange(14) % 3)
    few = {
        "data": {"name": "files", "path": str(path)},
        "partition": {"name": "iid", "clients": 1},
        "split": {"test": 0.05, "validation": 0.0},
    }
    with pytest.raises(ConfigError, match=r"there is one test row; raise split\.test"):
        records(**few, method={"name": "fedcvae"}, evaluation={"fidelity": True})


def test_a_function_that_a_file_does_not_have(tmp_path):
    (tmp_path / "own.py").write_text("def moments(x):\n    return x\n")
    with pytest.raises(
        ConfigError, match=r"'means'; name one that it has in evaluation\.extractor\."
    ):
        extractor(f"{tmp_path / 'own.py'}:means")


def test_a_name_without_a_function():
    asked = {"fidelity": True, "extractor": "features.py"}
    with pytest.raises(ConfigError, match=r"such as 'features\.py:extract'"):
        records(method={"name": "fedcvae"}, evaluation=asked)


def test_what_shows_in_the_first_round_leaves_no_folder(tmp_path):
    raw = {"rounds": 1, "evaluation": {"fidelity": True}, "run": {"folder": str(tmp_path / "run")}}
    with pytest.raises(ConfigError, match="generates none"):
        start(parse(raw))
    assert not (tmp_path / "run").exists()
