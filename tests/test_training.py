"""A client's local training equals an ordinary PyTorch loop over the same minibatches.

Not one line of the engine is shared: ``nn.Module``, ``torch.optim`` and slices of the data, in the
order the client drew, with short last batches instead of padded ones.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from federations import CLASSES, Data, composed, distance, federation, play, rows_of, sampled
from torch import Tensor, nn

from unalike import rng
from unalike.draws import draw
from unalike.network import Network
from unalike.parts.optim import Adam, Sgd
from unalike.tasks import MultiClass

BATCH = 8


def net() -> nn.Module:
    """Batch normalisation after a convolution and after a linear layer; no dropout."""
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, bias=False),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48, 6, bias=False),
        nn.BatchNorm1d(6, momentum=None),
        nn.Tanh(),
        nn.Linear(6, CLASSES),
    )


def minibatches(data: Data, client: int, epochs: float, t: int = 0) -> list[Tensor]:
    """The rows of each step of one client, without padding."""
    keys = rng.client(rng.stream(0, "batches"), t, torch.tensor([client]))
    size = torch.tensor([int(data.rows.sizes[client])])
    found = draw(
        data.rows.order,
        size,
        torch.tensor([int(data.rows.start[client])]),
        budget=size,
        epochs=torch.tensor([epochs], dtype=torch.float64),
        batch_size=BATCH,
        keys=keys,
    )
    return [i[r] for i, r in zip(found.row[0], found.real[0], strict=True)]


def by_pytorch(
    data: Data,
    client: int,
    epochs: float,
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    start: dict[str, Tensor],
) -> dict[str, Tensor]:
    """The client's weights and buffers after its local epochs, by an ordinary loop."""
    module = copy.deepcopy(net()).to(next(iter(start.values())).dtype)
    missing, unexpected = module.load_state_dict(start, strict=False)
    assert not unexpected
    assert all("num_batches" in name for name in missing)
    opt = optimizer(module.parameters())
    module.train()
    for rows in minibatches(data, client, epochs):
        opt.zero_grad()
        F.cross_entropy(module(data.examples.x[rows]), data.examples.y[rows]).backward()
        opt.step()
    return {k: v.to(torch.get_default_dtype()) for k, v in module.state_dict().items()}


OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "sgd": (Sgd(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": (Sgd(0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "decay": (Sgd(0.1, 0.9, 0.01), lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01)),
    "nesterov": (
        Sgd(0.1, 0.9, 0.01, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01, nesterov=True),
    ),
    "adam": (
        Adam(0.01, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.01),
    ),
    "adam_other_betas": (
        Adam(0.01, 0.5, 0.9, 1e-6),
        lambda p: torch.optim.Adam(p, 0.01, (0.5, 0.9), 1e-6),
    ),
}


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_client(name: str, engine: str) -> None:
    """21 examples in batches of 8 with a short one of 5, two and a half epochs."""
    ours, theirs = OPTIMIZERS[name]
    data = federation(sizes=(21,), dtype=torch.float64)
    task = MultiClass(Network(net().double()))
    start = task.network.given()
    recipe = composed(task, data, "fedavg", opt=ours, **sampled(1.0, 2.5))
    got = play(recipe, data, 1, start, engine=engine, batch_size=BATCH).x
    want = by_pytorch(data, 0, 2.5, theirs, start)
    assert distance({k: want[k].double() for k in got}, got) < 1e-6
    for layer in ("1.running_mean", "1.running_var", "5.running_mean", "5.running_var"):
        assert torch.allclose(got[layer], want[layer].double(), atol=1e-6)


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_fedavg_of_ragged_clients(engine: str) -> None:
    """The mean by size of five ordinary trainings, in single precision."""
    data = federation(sizes=(5, 10, 16, 21, 30))
    task = MultiClass(Network(net()))
    start = task.network.given()
    recipe = composed(task, data, "fedavg", opt=Sgd(0.1, 0.9), **sampled(1.0, 1.5))
    got = play(recipe, data, 1, start, engine=engine, batch_size=BATCH).x
    mean = {k: torch.zeros_like(v) for k, v in start.items()}
    for k, n in enumerate(data.rows.sizes):
        end = by_pytorch(data, k, 1.5, OPTIMIZERS["momentum"][1], start)
        for name in mean:
            mean[name] += float(n) / 82 * end[name]
    assert distance(mean, got) < 1e-5


def test_fedprox_by_pytorch() -> None:
    """The pull written into an ordinary loop."""
    data = federation(sizes=(21,), dtype=torch.float64)
    task = MultiClass(Network(net().double()))
    start = task.network.given()
    module = net().double()
    module.load_state_dict(start, strict=False)
    opt = torch.optim.SGD(module.parameters(), 0.1)
    anchor = [p.detach().clone() for p in module.parameters()]
    for rows in minibatches(data, 0, 2.0):
        opt.zero_grad()
        pull = sum(((p - a) ** 2).sum() for p, a in zip(module.parameters(), anchor, strict=True))
        loss = F.cross_entropy(module(data.examples.x[rows]), data.examples.y[rows])
        (loss + 0.7 / 2 * pull).backward()
        opt.step()
    recipe = composed(task, data, ("fedprox", {"mu": 0.7}), opt=Sgd(0.1), **sampled(1.0, 2.0))
    got = play(recipe, data, 1, start, batch_size=BATCH).x
    want = {k: v for k, v in module.state_dict().items() if k in got}
    assert distance({k: v.double() for k, v in want.items()}, got) < 1e-6


def test_the_loss_of_a_padded_batch_is_that_of_its_real_rows() -> None:
    """In training mode with batch statistics, and in evaluation mode."""
    from unalike.batches import Batch

    task = MultiClass(Network(net().double()))
    w, x = task.network.given(), federation(sizes=(12,), dtype=torch.float64).examples.x
    y = torch.arange(12) % CLASSES
    real = torch.arange(12) < 7
    padded, short = (Batch(x[:n], y[:n], real[:n], rng.key(0)) for n in (12, 7))
    (a, buffers_a), (b, buffers_b) = task.loss(w, padded), task.loss(w, short)
    assert float(a.detach()) == pytest.approx(float(b.detach()), abs=1e-12)
    assert distance(buffers_a, buffers_b) < 1e-12
    module = net().double().train()
    want = F.cross_entropy(module(x[:7]), y[:7])
    assert float(a.detach()) == pytest.approx(float(want.detach()), abs=1e-12)
    assert torch.allclose(task.each_loss(w, padded)[:7], task.each_loss(w, short))


def test_a_client_never_touches_anothers_examples() -> None:
    """Rows that are not numbers spoil their owner alone, also where steps are padded."""
    task = MultiClass(Network(net()))
    data = federation(sizes=(5, 9, 16, 21, 30))
    recipe = composed(task, data, "fedavg")
    clean = {}
    for engine in ("sequential", "vectorized"):
        x = data.examples.x.clone()
        x[:5] = torch.nan
        broken = Data(type(data.examples)(x, data.examples.y, CLASSES), data.rows)
        played = play(recipe, broken, 2, engine=engine)
        assert [list(r.rejected) for r in played.rounds] == [[0], [0]]
        clean[engine] = played.x
    assert distance(clean["sequential"], clean["vectorized"]) < 1e-5


def test_a_single_example_under_batch_normalisation() -> None:
    """PyTorch refuses a batch of one; here its variance is zero and training goes on."""
    task = MultiClass(Network(net()))
    data = federation(sizes=(1, 9))
    for engine in ("sequential", "vectorized"):
        played = play(composed(task, data, "fedavg"), data, 3, engine=engine)
        assert not any(r.rejected for r in played.rounds)


def test_the_learning_rate_schedule_reaches_the_clients() -> None:
    """A factor of zero stops everything."""
    task, data = MultiClass(Network(net())), federation(sizes=(9, 12))
    recipe = composed(task, data, "fedavg")
    still = play(replace(recipe, decay=lambda t: 0.0), data, 1).x
    weights = set(task.network.weights)
    start = task.init(rng.key(7))
    assert all(torch.equal(still[k], start[k]) for k in weights)
    half = play(replace(recipe, decay=lambda t: 0.5), data, 1).x
    slower = play(composed(task, data, "fedavg", opt=Sgd(0.025)), data, 1).x
    assert distance(half, slower) < 1e-6


def test_rows_may_lie_anywhere() -> None:
    """A client's rows are an index set, not a slice."""
    task, data = MultiClass(Network(net())), federation(sizes=(7, 9, 14))
    shuffle = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    back = shuffle.argsort()
    moved = Data(
        type(data.examples)(data.examples.x[shuffle], data.examples.y[shuffle], CLASSES),
        type(data.rows)(back, rows_of((7, 9, 14)).start),
    )
    a, b = (play(composed(task, d, "fedavg"), d, 2).x for d in (data, moved))
    assert all(torch.equal(a[k], b[k]) for k in a)
