"""Parameters with requires_grad = False are not trained, not sent, and counted as such."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import unalike
from unalike.network import Network
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.folder.records import read_json, read_lines

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    head = ("last.",)

    def __init__(self, shape, classes):
        super().__init__()
        self.body, self.last = nn.Linear(64, 12), nn.Linear(12, classes)
        self.body.requires_grad_(False)
        self.register_buffer("order", torch.arange(12).flip(0))

    def forward(self, x):
        return self.last(torch.relu(self.body(x.flatten(1)))[:, self.order])
"""


class Body(nn.Module):
    """A frozen layer under one that learns."""

    def __init__(self, frozen: bool = True) -> None:
        super().__init__()
        self.body, self.last = nn.Linear(64, 12), nn.Linear(12, 10)
        self.body.requires_grad_(not frozen)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.body(x.flatten(1))))


class Head(nn.Module):
    """Only what learns, on features that somebody else computed."""

    def __init__(self, like: Body) -> None:
        super().__init__()
        self.last = nn.Linear(12, 10)
        self.last.load_state_dict(like.last.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x)


def digits() -> unalike.Federation:
    return unalike.federate(
        unalike.dataset("digits"), unalike.partitioner("dirichlet", clients=4), seed=0
    )


def module() -> Body:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Body()


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
@pytest.mark.parametrize("method", ["fedavg", "scaffold", {"name": "fedprox", "mu": 0.1}])
def test_the_same_as_the_head_on_fixed_features(engine: str, method: object) -> None:
    """The oracle: features computed beforehand, and a model that has nothing but the head."""
    model, data = module(), digits()
    with torch.no_grad():
        x = torch.relu(model.body(data.examples.x.flatten(1)))
    fixed = digits()
    object.__setattr__(fixed.examples, "x", x)
    how = {"method": method, "rounds": 3, "engine": {"kind": engine}, "local": {"lr": 0.3}}
    ours, theirs = unalike.train(data, model, **how), unalike.train(fixed, Head(model), **how)
    assert ours.model is not None
    assert theirs.model is not None
    for name, value in theirs.model.state_dict().items():
        torch.testing.assert_close(ours.model.state_dict()[name], value)
    for name in ("weight", "bias"):
        assert torch.equal(getattr(ours.model.body, name), getattr(model.body, name))
    assert ours.summary["bytes_up"] == theirs.summary["bytes_up"]
    assert ours.summary["bytes_down"] == theirs.summary["bytes_down"]


@pytest.mark.parametrize("init", ["given", "drawn"])
def test_a_run_folder(init: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(MODEL)
    raw = {
        "rounds": 2,
        "partition": {"name": "iid", "clients": 3},
        "model": {"name": "module", "file": "m.py"},
        "run": {"folder": "out", "init": init},
    }
    folder = start(parse(raw))
    again = start(parse({**raw, "rounds": 1, "run": {"folder": "again", "init": init}}))
    one, other = (load_file(f / "model.safetensors") for f in (folder, again))
    assert torch.equal(one["body.weight"], other["body.weight"])  # as it came
    assert not torch.equal(one["last.weight"], other["last.weight"])
    facts = read_json(folder / "skew.json")
    assert (facts["parameters"], facts["frozen"]) == (12 * 10 + 10, 64 * 12 + 12)
    for record in read_lines(folder / "rounds.jsonl"):
        assert record["bytes_down"] == 3 * 4 * 130


def test_a_private_head_over_a_frozen_body(tmp_path: Path) -> None:
    result = unalike.train(digits(), module(), "local_only", rounds=1)
    personal = result.personal(1)
    assert torch.equal(personal.body.weight, module().body.weight)


def test_nothing_left_to_train() -> None:
    model = module()
    model.last.requires_grad_(False)
    with pytest.raises(unalike.ConfigError, match="has no weights to train"):
        unalike.train(digits(), model, rounds=1)


def test_constants_are_there_for_another_device() -> None:
    network = Network(module())
    assert network.weights == ("last.weight", "last.bias")
    assert network.constants().keys() == {"body.weight", "body.bias"}
    assert network.constants(torch.device("meta"))["body.weight"].device.type == "meta"
