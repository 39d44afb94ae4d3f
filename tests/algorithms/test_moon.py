"""MOON: the loss and its gradient beside PyTorch written out, and where it is FedAvg."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from autoencoders import clients, vae
from federations import (
    Named,
    Played,
    composed,
    distance,
    federation,
    network_task,
    play,
    same,
    sampled,
)
from torch import nn

from unalike import rng
from unalike.algorithms.moon import Contrast
from unalike.batches import Batch
from unalike.errors import ConfigError
from unalike.gradient import gradient
from unalike.network import Network
from unalike.parts.descent import Loss
from unalike.parts.optim import Sgd
from unalike.parts.representation.cut import tapped
from unalike.tasks import MultiClass

ROWS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [9.0, 9.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 2, 1])


def body_and_head() -> nn.Module:
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    net.head = ("2.",)  # type: ignore[assignment]
    return net


def test_the_loss_and_its_gradient() -> None:
    """Two real rows and one of padding; three different models."""
    task = MultiClass(Network(body_and_head()))
    w, received, last = (task.init(rng.key(i)) for i in (1, 2, 3))
    w, received, last = ({k: v.double() for k, v in m.items()} for m in (w, received, last))
    real = torch.tensor([True, True, False])
    batch = Batch(ROWS, LABELS, real, rng.key(0))
    contrast = Contrast(Loss(task), tapped(task.network, ("2.",)), 0.7, 0.5)
    found, _ = gradient(lambda w: contrast(w, {}, batch, (received, last, ())), w)
    value = float(contrast(w, {}, batch, (received, last, ()))[0])

    def z(m: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.tanh(ROWS[:2] @ m["0.weight"].T + m["0.bias"])

    own = {k: v.clone().requires_grad_() for k, v in w.items()}
    mine, theirs, before = z(own), z(received), z(last)
    logits = mine @ own["2.weight"].T + own["2.bias"]
    a = (mine * theirs).sum(1) / mine.norm(dim=1) / theirs.norm(dim=1) / 0.5
    b = (mine * before).sum(1) / mine.norm(dim=1) / before.norm(dim=1) / 0.5
    contrasted = -torch.log(a.exp() / (a.exp() + b.exp())).mean()
    want = F.cross_entropy(logits, LABELS[:2]) + 0.7 * contrasted
    assert value == pytest.approx(float(want.detach()), abs=1e-10)
    want.backward()
    for name, leaf in own.items():
        torch.testing.assert_close(found[name], leaf.grad, atol=1e-10, rtol=1e-8)


def run(*methods: Named, rounds: int = 3, network: str = "conv", **parts: Any) -> Played:
    task, data = network_task(network)
    recipe = composed(task, data, *methods, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, rounds, engine="sequential", batch_size=16, traced=False)


@pytest.mark.parametrize("network", ["conv", "dense"])
def test_without_the_contrast_it_is_fedavg(network: str) -> None:
    """Bit for bit, with its messages."""
    opt = Sgd(0.05, 0.9, 1e-3)
    one, other = (run(m, network=network, opt=opt) for m in (("moon", {"mu": 0.0}), "fedavg"))
    assert same(one.server, other.server)
    assert one.rounds[0].traffic == other.rounds[0].traffic


def test_the_first_round_is_fedavgs_and_later_ones_are_not() -> None:
    """The received and the last model are the same: to rounding, since dropout is off in both."""
    moon, avg = (run(m, rounds=1, network="dense") for m in ("moon", "fedavg"))
    assert distance(moon.x, avg.x) < 1e-6
    moon, avg = (run(m, rounds=3, network="dense") for m in (("moon", {"mu": 5.0}), "fedavg"))
    assert distance(moon.x, avg.x) > 1e-4


def test_the_last_model_is_remembered_and_judges_nobody() -> None:
    played = run("moon")
    algorithm = played.simulation.recipe.algorithm
    down = algorithm.broadcast(played.server)
    assert not algorithm.personal_models
    for i, mine in played.kept[-1].items():
        assert mine.keys() == played.x.keys()
        assert same(algorithm.personal(down, mine), played.x)
        present = i in played.rounds[-1].ids.tolist()
        assert same(mine, played.kept[1].get(i, {})) is not present


def test_both_passes_are_counted() -> None:
    work = run("moon").rounds[0].worked
    assert work["gradients"] == 2 * work["samples"]


def test_models_without_a_head_after_a_body() -> None:
    data = federation()
    headless = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    allhead = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    allhead.head = ("1.",)  # type: ignore[assignment]
    for module in (headless, allhead):
        with pytest.raises(ConfigError, match="no body before its head"):
            composed(MultiClass(Network(module)), data, "moon")


def test_an_autoencoder_has_no_representation_that_goes_into_a_head() -> None:
    with pytest.raises(ConfigError, match=r"'moon' compares .* an autoencoder adds noise"):
        composed(vae(), clients(), "moon")


@pytest.mark.parametrize("other", ["scaffold", "fedper"])
def test_what_has_no_place_beside_it(other: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError):
        composed(task, data, "moon", other)
