"""FedMix: means by hand, both losses beside PyTorch written out, and where it is FedAvg."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from federations import (
    Data,
    Played,
    distance,
    drafted,
    federation,
    network_task,
    rows_of,
    sampled,
    walk,
)
from torch import nn

from unalike import rng
from unalike.batches import Batch
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.gradient import gradient
from unalike.network import Network
from unalike.parts.augmentation.mixup import How, Mixed, drawn
from unalike.parts.optim import Sgd
from unalike.parts.topology import Ring, Rotating
from unalike.tasks import Binary, MultiClass

ROWS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [9.0, 9.0]], dtype=torch.float64)
LABELS, REAL = torch.tensor([0, 2, 1]), torch.tensor([True, True, False])
POOL = {
    "x": torch.tensor([[0.3, -0.7]], dtype=torch.float64),
    "y": torch.tensor([[0.5, 0.2, 0.3]], dtype=torch.float64),
    "filled": torch.tensor(1),
}
HOW: tuple[How, How] = ("naive", "taylor")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).double()


@pytest.mark.parametrize("how", ["naive", "taylor"])
def test_the_loss_and_its_gradient(how: Any) -> None:
    """Two real rows and one of padding; the derivative by the rows' own chain rule."""
    task, s = MultiClass(Network(network())), 0.2
    w = {k: v.double() for k, v in task.init(rng.key(1)).items()}
    batch = Batch(ROWS, LABELS, REAL, rng.key(0))
    mixed = Mixed(task, s, how)
    found, _ = gradient(lambda w: mixed(w, {}, batch, POOL), w)
    own = {k: v.clone().requires_grad_() for k, v in w.items()}
    a, b, x, y = POOL["x"][0], POOL["y"][0], ROWS[:2], LABELS[:2]

    def logits(x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(x @ own["0.weight"].T + own["0.bias"])
        return hidden @ own["2.weight"].T + own["2.bias"]

    def losses(out: torch.Tensor) -> torch.Tensor:
        """(1 - s) l(y) + s sum_c b_c l(c)."""
        every = -out.log_softmax(1)
        return ((1 - s) * F.cross_entropy(out, y, reduction="none") + s * (every @ b)).mean()

    if how == "naive":
        want = losses(logits((1 - s) * x + s * a))
    else:
        u = (1 - s) * x
        hidden = torch.tanh(u @ own["0.weight"].T + own["0.bias"])
        wrong = logits(u).softmax(1) - F.one_hot(y, 3)
        back = ((wrong @ own["2.weight"]) * (1 - hidden**2)) @ own["0.weight"]
        want = losses(logits(u)) + s * (1 - s) * (back @ a).mean()
    want.backward()
    value = float(mixed(w, {}, batch, POOL)[0].detach())
    assert value == pytest.approx(float(want.detach()), abs=1e-12)
    for name, leaf in own.items():
        torch.testing.assert_close(found[name], leaf.grad, atol=1e-10, rtol=1e-8)


def test_taylor_comes_near_to_naive_as_the_square_of_the_share() -> None:
    """A tenth of the share, a hundredth of the gap."""
    task = MultiClass(Network(network()))
    w = {k: v.double() for k, v in task.init(rng.key(1)).items()}
    batch = Batch(ROWS, LABELS, REAL, rng.key(0))

    def gap(s: float) -> float:
        naive, taylor = (float(Mixed(task, s, how)(w, {}, batch, POOL)[0].detach()) for how in HOW)
        return abs(naive - taylor)

    assert gap(1e-2) / gap(1e-3) == pytest.approx(100, rel=0.05)


def test_empty_means_are_never_drawn() -> None:
    pool = {"x": torch.arange(4.0), "y": torch.arange(4.0), "filled": torch.tensor(3)}
    seen = {int(drawn(pool, rng.key(i))[0]) for i in range(60)}
    assert seen == {0, 1, 2}


def run(*methods: Any, engine: Any = "sequential", rounds: int = 2, **parts: Any) -> Played:
    task, data = network_task("conv", torch.float64)
    options = {"traced": True} if engine == "traced" else {}
    way = "sequential" if engine == "traced" else engine
    program = drafted(task, data, *methods, rounds=rounds, **parts).program()
    return walk(program, data, batch_size=16, engine=way, **options)


def test_means_of_all_clients_reach_everybody() -> None:
    """Clients of 3, 1 and 4 rows, two means each: the second's second part is empty."""
    x = torch.arange(8, dtype=torch.float64)[:, None]
    data = Data(Examples(x, torch.arange(8) % 2, 2), rows_of([3, 1, 4]))
    task = MultiClass(Network(nn.Linear(1, 2).double()))
    played = walk(drafted(task, data, ("fedmix", {"parts": 2}), rounds=1).program(), data)
    pool = played.simulation.recipe.algorithm.pool
    assert int(pool["filled"]) == 5
    got = pool["x"][:5, 0]
    assert float(got[2]) == 3  # the one row of the second client
    assert 2 * float(got[0]) + float(got[1]) == pytest.approx(0 + 1 + 2)
    assert 2 * float(got[3] + got[4]) == pytest.approx(4 + 5 + 6 + 7)
    torch.testing.assert_close(pool["y"][:5].sum(1), torch.ones(5, dtype=torch.float64))


def test_bytes_by_hand() -> None:
    """Up: 2 means of 16 + 3 + 1 numbers and 2 statistics; down, once: 12 means and their number."""
    first, second, third = run(("fedmix", {"parts": 2})).rounds
    assert first.traffic.up == 6 * (2 * (16 + 3 + 1) * 8 + 2 * 4)
    model = third.traffic.down
    assert second.traffic.down == model + 6 * (12 * (16 + 3) * 8 + 8)


@pytest.mark.parametrize("how", ["naive", "taylor"])
def test_every_engine(how: str) -> None:
    method = ("fedmix", {"how": how, "share": 0.3})
    one, *others = (
        run(method, engine=e, **sampled(0.5, 1.5), opt=Sgd(0.05, 0.9))
        for e in ("sequential", "vectorized", "traced")
    )
    assert all(distance(one.x, other.x) < 1e-12 for other in others)


@pytest.mark.parametrize("how", ["naive", "taylor"])
def test_without_a_share_it_is_fedavg(how: str) -> None:
    """On the minibatches of the rounds after the one in which means are collected."""
    one, other = run(("fedmix", {"share": 0.0, "how": how})), run(("fedmix", {"share": 0.5}))
    task, data = network_task("conv", torch.float64)
    stages = drafted(task, data, ("fedmix", {"share": 0.0}), rounds=2).program()
    plain = drafted(task, data, rounds=2).recipe()
    avg = walk((stages[0], replace(stages[1], recipe=plain)), data, batch_size=16)
    assert distance(one.x, avg.x) < 1e-12
    assert distance(one.x, other.x) > 1e-4


def test_what_it_refuses() -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="pass on everybody's means"):
        drafted(task, data, "fedmix", topology=Ring())
    with pytest.raises(ConfigError, match="without noise"):
        drafted(task, data, "fedmix", ("dp", {"delta": 0.01}))
    drafted(task, data, "fedmix", topology=Rotating())
    tokens = federation((2,), tokens=6)
    with pytest.raises(ConfigError, match="tokens"):
        walk(drafted(network_task("lstm")[0], tokens, "fedmix", rounds=1).program(), tokens)
    with pytest.raises(ConfigError, match="needs a multi-class task"):
        drafted(Binary(Network(nn.Linear(1, 1))), data, "fedmix")
