"""LG-FedAvg's local losses: gradients against formulas written out, what travels, what is refused.

f(x) = F x with three features and two numbers, g(h) = G h with three classes, all without biases.
"""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from federations import Data, composed, distance, drafted, federation, network_task, play, same
from torch import Tensor, nn

from unalike import rng
from unalike.batches import Batch
from unalike.errors import ConfigError
from unalike.gradient import gradient
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.representation.cut import comes_last, tapped
from unalike.parts.representation.local import represented
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.experiment.protected import Blinkers
from unalike.run.rounds import rounds
from unalike.tasks import Autoencoding, MultiClass, NetworkTask

LOCAL = ["supervised", "autoencoding", "self_supervised", "adversarial"]
ENGINES = pytest.mark.parametrize("engine", ["sequential", "vectorized"])


class Small(nn.Module):
    """A private layer and a shared one."""

    head = ("top.",)

    def __init__(self, features: int = 3) -> None:
        super().__init__()
        self.body = nn.Linear(features, 2, bias=False)
        self.top = nn.Linear(2, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.top(torch.tanh(self.body(x.flatten(1))))


def small(local: Any, hidden: int = 0, weight: float = 0.5) -> NetworkTask:
    """The task with a local loss, in double precision."""
    module = Small()
    if hidden:
        module.register_forward_pre_hook(Blinkers(hidden))
    task = MultiClass(Network(module.double()))
    return represented(task, local, ("top.",), (3 + hidden,), 3, hidden, weight)


def batch(features: int = 3) -> Batch:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(5, features)))
    if features > 3:
        x[:, 3:] = (x[:, 3:] > 0).double()
    real = torch.tensor([True, True, True, True, False])
    return Batch(x, torch.tensor([0, 1, 2, 1, 0]), real, rng.key(3))


def drawn(task: NetworkTask) -> dict[str, Tensor]:
    return {n: v.double() for n, v in task.init(rng.key(1)).items()}


def slopes(task: NetworkTask, w: dict[str, Tensor], b: Batch) -> dict[str, Tensor]:
    found, _ = gradient(lambda v: task.loss(v, b), w)
    return found


def by_hand(loss: Any, w: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradient of a loss that is written out below."""
    leaves = {n: v.clone().requires_grad_() for n, v in w.items()}
    found = torch.autograd.grad(loss(leaves), list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


def assert_equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for n in a:
        torch.testing.assert_close(a[n].double(), b[n].double(), rtol=1e-6, atol=1e-9)


def test_supervised_adds_the_loss_of_a_second_head() -> None:
    task, b = small("supervised"), batch()
    w, x, y = drawn(task), b.x[:4], b.y[:4]

    def loss(w: dict[str, Tensor]) -> Tensor:
        h = torch.tanh(x @ w["body.weight"].T)
        second = h @ w["local.weight"].T + w["local.bias"]
        return F.cross_entropy(h @ w["top.weight"].T, y) + 0.5 * F.cross_entropy(second, y)

    assert_equal(slopes(task, w, b), by_hand(loss, w))


def test_autoencoding_adds_the_error_of_a_decoder() -> None:
    task, b = small("autoencoding"), batch()
    w, x, y = drawn(task), b.x[:4], b.y[:4]

    def loss(w: dict[str, Tensor]) -> Tensor:
        h = torch.tanh(x @ w["body.weight"].T)
        inner = torch.relu(h @ w["local.0.weight"].T + w["local.0.bias"])
        back = inner @ w["local.2.weight"].T + w["local.2.bias"]
        error = ((back - x) ** 2).mean(1).mean()
        return F.cross_entropy(h @ w["top.weight"].T, y) + 0.5 * error

    assert_equal(slopes(task, w, b), by_hand(loss, w))


def test_the_adversary_descends_and_the_representation_ascends() -> None:
    """L_g - strength L_r for the two parts of the model, + L_r for the adversary."""
    task, b = small("adversarial", hidden=2), batch(5)
    w, x, y, p = drawn(task), b.x[:4, :3], b.y[:4], b.x[:4, 3:]

    def told(w: dict[str, Tensor], h: Tensor) -> Tensor:
        for i in (0, 2, 4):
            h = torch.relu(h @ w[f"local.{i}.weight"].T + w[f"local.{i}.bias"])
        out = h @ w["local.6.weight"].T + w["local.6.bias"]
        return F.binary_cross_entropy_with_logits(out, p)

    def of_model(w: dict[str, Tensor]) -> Tensor:
        h = torch.tanh(x @ w["body.weight"].T)
        return F.cross_entropy(h @ w["top.weight"].T, y) - 0.5 * told(w, h)

    def of_adversary(w: dict[str, Tensor]) -> Tensor:
        return told(w, torch.tanh(x @ w["body.weight"].T)) + 0 * w["top.weight"].sum()

    model, opponent = by_hand(of_model, w), by_hand(of_adversary, w)
    want = {n: (opponent if n.startswith("local.") else model)[n] for n in w}
    assert_equal(slopes(task, w, b), want)


class Image(nn.Module):
    """A private layer on images of 2 x 2, and a shared one."""

    head = ("top.",)

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 2, bias=False)
        self.top = nn.Linear(2, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.top(torch.tanh(self.body(x.flatten(1))))


def test_self_supervision_asks_which_way_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One quarter turn after the other: the images are turned and the turns are the labels."""
    task = MultiClass(Network(Image().double()))
    task = represented(task, "self_supervised", ("top.",), (1, 2, 2), 3, 0, 0.5)
    x = torch.arange(16.0).double().reshape(4, 1, 2, 2) / 16
    b = Batch(x, torch.tensor([0, 1, 2, 1]), torch.ones(4, dtype=torch.bool), rng.key(0))
    w, u = drawn(task), torch.tensor([0.1, 0.3, 0.6, 0.9])
    monkeypatch.setattr("unalike.parts.representation.local.rng.uniform", lambda k, n: u[:n])
    turned = torch.stack([torch.rot90(x[i], i, (1, 2)) for i in range(4)])

    def loss(w: dict[str, Tensor]) -> Tensor:
        h, t = (torch.tanh(v.flatten(1) @ w["body.weight"].T) for v in (x, turned))
        pretext = F.cross_entropy(t @ w["local.weight"].T + w["local.bias"], torch.arange(4))
        return F.cross_entropy(h @ w["top.weight"].T, b.y) + 0.5 * pretext

    assert_equal(slopes(task, w, b), by_hand(loss, w))
    assert task.passes == 2


@ENGINES
@pytest.mark.parametrize("local", LOCAL[:3])
def test_only_the_shared_layers_travel(local: str, engine: Any) -> None:
    """As many bytes as plain LG-FedAvg, and a part of the client's own that learns."""
    task, data = network_task("dense")
    plain, made = (
        play(composed(task, data, ("lg_fedavg", {"local": kind})), data, 2, engine=engine)
        for kind in ("plain", local)
    )
    assert plain.rounds[0].traffic == made.rounds[0].traffic
    assert made.x.keys() == plain.x.keys()
    own = [n for n in made.kept[0][0] if n.startswith("local.")]
    assert own
    assert not same(made.kept[0][0], made.kept[1][0])
    assert distance(made.x, plain.x) > 1e-6  # it acts on what is shared


@pytest.mark.parametrize("local", LOCAL[:3])
def test_without_weight_nothing_changes(local: str) -> None:
    """Bit for bit the plain method, for shared and private layers."""
    task, data = network_task("conv")
    plain, made = (
        play(composed(task, data, ("lg_fedavg", settings), opt=Sgd(0.05, 0.9)), data, 2)
        for settings in ({}, {"local": local, "local_weight": 0.0})
    )
    assert same(plain.x, made.x)
    for i, kept in plain.kept[-1].items():
        assert all(torch.equal(v, made.kept[-1][i][n]) for n, v in kept.items())


def protected() -> tuple[NetworkTask, Data]:
    """Rows of three features and one protected column."""
    data = federation((4,))
    module = Small()
    module.register_forward_pre_hook(Blinkers(1))
    return MultiClass(Network(module)), data


@pytest.mark.parametrize("step", ["joint", "auxiliary", "sequential"])
def test_both_engines_agree_with_an_adversary(step: str) -> None:
    task, data = protected()
    settings = ("lg_fedavg", {"local": "adversarial", "local_weight": 2.0, "step": step})
    recipe = composed(task, data, settings, protected=1)
    one, two = (play(recipe, data, 3, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.x, two.x) < 1e-5
    for a, b in zip(one.kept, two.kept, strict=True):
        assert all(distance(a[i], b[i]) < 1e-5 for i in a)


def test_an_adversary_that_goes_first_is_fooled_as_it_then_is() -> None:
    """One batch: its step on its own loss, then the others' at the new adversary."""
    task, data = protected()
    data = federation((4,), sizes=[6])
    recipe = composed(
        task,
        data,
        ("lg_fedavg", {"local": "adversarial", "local_weight": 2.0, "step": "auxiliary"}),
        protected=1,
        opt=Sgd(0.1),
        batch_size=6,
    )
    made = recipe.algorithm.task
    played = play(recipe, data, 1)
    w = {n: v.double() for n, v in made.init(rng.key(7)).items()}
    x = data.examples.x.double()
    b = Batch(x, data.examples.y, torch.ones(6, dtype=torch.bool), rng.key(0))
    first = slopes(made, w, b)
    after = {n: v - 0.1 * first[n] if n.startswith("local.") else v for n, v in w.items()}
    second = slopes(made, after, b)
    want = {n: v if n.startswith("local.") else v - 0.1 * second[n] for n, v in after.items()}
    got = {**played.kept[-1][0], **played.x}
    for n, v in want.items():
        torch.testing.assert_close(got[n].double(), v, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"local": "supervised", "shared": "body"}, "private layers must come first"),
        ({"local": "supervised", "shared": ["features."]}, "private layers must come first"),
        ({"local": "adversarial"}, "name no protected attribute"),
        ({"step": "auxiliary"}, "no auxiliary network to step on; set method.local to a loss"),
        ({"local_weight": 5.0}, "local_weight belongs to local = .* leave it out"),
    ],
)
def test_refusals(settings: dict[str, Any], said: str) -> None:
    task, data = network_task("dense")
    with pytest.raises((ConfigError, ValueError), match=said):
        drafted(task, data, ("lg_fedavg", settings))


def test_refusals_of_tasks_and_features() -> None:
    task, data = network_task("lstm")
    with pytest.raises(ConfigError, match="real-valued features"):
        drafted(task, data, ("lg_fedavg", {"local": "supervised"}))
    flat, rows = MultiClass(Network(Small())), federation((3,))
    with pytest.raises(ConfigError, match="square images"):
        drafted(flat, rows, ("lg_fedavg", {"local": "self_supervised"}))
    raw = {
        "data": {"name": "digits"},
        "model": {"name": "vae"},
    }
    for local in LOCAL:
        method = {"name": "lg_fedavg", "local": local, "shared": ["decoder"]}
        with pytest.raises(
            ConfigError, match="an autoencoder adds noise to it; set local = 'plain'"
        ):
            experiment(parse({**raw, "method": method}))
    assert issubclass(Autoencoding, NetworkTask)


def test_any_cut_gives_the_representation_before_it() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    network = Network(module)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    for prefixes, want in ((("2.", "4."), module[:2](x)), (("4.",), module[:4](x))):
        tap = tapped(network, prefixes)
        held = {f"inner.{n}": v for n, v in network.given().items()}
        out, h = tap.eval(held, x)
        assert torch.equal(h, want)
        assert torch.equal(out, module(x))
        assert comes_last(network, prefixes)
    assert not comes_last(network, ("0.",))
    assert not comes_last(network, ("0.", "2.", "4."))


def test_a_sequence_does_not_pass_through_the_local_network() -> None:
    """``nn.Sequential`` calls all its children."""
    task = MultiClass(Network(nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Linear(4, 3))))
    data = federation()
    recipe = composed(task, data, ("lg_fedavg", {"local": "supervised", "shared": ["2."]}))
    w = recipe.algorithm.task.init(rng.key(0))
    plain = {n: v for n, v in w.items() if not n.startswith("local.")}
    x = data.examples.x[:4]
    assert torch.equal(recipe.algorithm.task.logits(w, x), task.logits(plain, x))


def test_a_warm_start_shares_everything_first() -> None:
    raw = {
        "rounds": 3,
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 3},
        "method": {"name": "lg_fedavg", "local": "autoencoding", "warm_start": 1},
    }
    first, second, _ = rounds(experiment(parse(raw)))
    assert first.record["bytes_up"] > second.record["bytes_up"]
    assert second.record["stage"] == 2
