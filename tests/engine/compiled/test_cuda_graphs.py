"""Steps that are repeated in place are the steps of a loop; recording them needs a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from federations import composed, federation, network_task, play, same, sampled
from torch import Tensor
from torch.func import vmap

from unalike import rng
from unalike.batches import Batch, Batches
from unalike.draws import Draw, Extent
from unalike.engine.compiled.calls import Calls
from unalike.engine.compiled.cuda_graphs import Graphs
from unalike.engine.simulation.simulate import Simulation
from unalike.errors import RunWarning
from unalike.mapped import Places
from unalike.parts.optim import Adam


class Again:
    """What a recorder does, done by hand: a recording is the thing itself."""

    def __init__(self) -> None:
        self.recorded = 0

    def __call__(self, body: Callable[[], None]) -> Callable[[], None]:
        self.recorded += 1
        return body


CPU = torch.device("cpu")
# Carries of every kind: moments, a shift, two models, weights, two parts, changed rows, features.
KINDS = ["fedavg", "scaffold", "superfed_mm", "term", "lg_fedavg", "fedaug", "fedevg"]


def replayed(monkeypatch: pytest.MonkeyPatch) -> Again:
    """From here on simulations replay."""
    prepare, watch = Simulation.__init__, Again()

    def prepared(self: Simulation, *args: Any, **options: Any) -> None:
        prepare(self, *args, **options)
        self.repeat = Graphs(watch)

    monkeypatch.setattr(Simulation, "__init__", prepared)
    return watch


@pytest.mark.parametrize("method", KINDS)
def test_methods_in_place(method, monkeypatch):
    task, data = network_task("dense")
    special = {"fedevg": {"per_class": 2}, "lg_fedavg": {"step": "sequential"}}
    settings = special.get(method, {})
    parts = {"opt": Adam(0.01)} if method in ("fedavg", "lg_fedavg") else {}
    recipe = composed(task, data, (method, settings), rounds=2, **sampled(1.0, 2.0), **parts)
    looped = play(recipe, data, 2, batch_size=3)
    watch = replayed(monkeypatch)
    repeated = play(recipe, data, 2, batch_size=3)
    assert same(looped.states[-1].servers, repeated.states[-1].servers)
    assert same(looped.kept[-1], repeated.kept[-1])
    assert watch.recorded


@pytest.mark.parametrize("method", KINDS)
def test_whole_calls(method, monkeypatch):
    """From the second round on, with everybody in it, the whole call of clients is replayed."""
    task, data = network_task("dense")
    settings = {"fedevg": {"per_class": 2}, "lg_fedavg": {"step": "sequential"}}.get(method, {})
    recipe = composed(task, data, (method, settings), rounds=4, **sampled(1.0, 2.0))
    called = play(recipe, data, 4, batch_size=3)
    prepare, watch = Simulation.__init__, Again()

    def prepared(self: Simulation, *args: Any, **options: Any) -> None:
        prepare(self, *args, **options)
        self.calls = Calls(watch, CPU)

    monkeypatch.setattr(Simulation, "__init__", prepared)
    replayed = play(recipe, data, 4, batch_size=3)
    assert same(called.states[-1].servers, replayed.states[-1].servers)
    assert same(called.kept[-1], replayed.kept[-1])
    assert watch.recorded == 1


def test_a_call_that_cannot_be_recorded_is_made():
    """As it is when it comes for the first time: nobody else can make it."""
    calls = Calls(lambda body: None, CPU)
    assert [calls(torch.neg, (torch.ones(2),), "kind") for _ in range(3)] == [None] * 3


def test_places_are_on_the_device_that_computes():
    """A number that stayed on the host would be recorded as a constant."""
    there = torch.device("meta")
    assert all(x.device == there for x in Places((torch.ones(()), torch.ones(2)), there).tree())


def test_kinds_of_calls():
    calls, ones = Calls(Again(), CPU), torch.ones(2)
    assert calls(torch.neg, (ones,), "kind") is None
    assert calls(torch.neg, (torch.ones(3),), "kind") is None
    assert calls(torch.abs, (ones,), "other") is None
    first = calls(torch.neg, (ones,), "kind")
    assert calls(torch.neg, (2 * ones,), "kind").tolist() == [-2, -2]
    assert first.tolist() == [-1, -1]  # not overwritten


def test_rounds_share_recordings(monkeypatch):
    """The same clients in every round: nothing new after the second."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", rounds=9, **sampled(1.0, 3.0))
    watch, counts = replayed(monkeypatch), list[int]()
    for rounds in (2, 9):
        before = watch.recorded
        play(recipe, data, rounds, batch_size=3)
        counts.append(watch.recorded - before)
    assert counts[0] == counts[1] > 0


def test_what_cannot_be_recorded_is_computed(monkeypatch):
    """Said once, after some tries."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", rounds=3, **sampled(1.0, 3.0))
    looped = play(recipe, data, 3, batch_size=3)
    monkeypatch.setattr(Again, "__call__", lambda self, body: None)
    replayed(monkeypatch)
    with pytest.warns(RunWarning, match="cannot be recorded as a CUDA graph") as said:
        repeated = play(recipe, data, 3, batch_size=3)
    assert len(said) == 1
    assert same(looped.states[-1].servers, repeated.states[-1].servers)


def test_too_many_kinds_are_forgotten(monkeypatch):
    """The one that was not used for longest."""
    monkeypatch.setattr("unalike.engine.compiled.cuda_graphs.KINDS", 2)
    watch = Again()
    graphs, x = Graphs(watch), torch.arange(8.0)

    def fold(n: int) -> int:
        row = torch.arange(8)[None, :, None].expand(n, -1, -1)
        real = torch.ones_like(row, dtype=torch.bool)
        drawn = Draw(row, real, ~real, torch.zeros(n, 8, dtype=torch.int64))
        before, extent = watch.recorded, Extent.of(drawn)

        def one(draw: Draw, key: Tensor) -> Tensor:
            return Batches(x, x, draw, key, extent, repeat=graphs).fold(add, torch.zeros(()))

        assert vmap(one)(drawn, torch.arange(n)).tolist() == [28.0] * n
        return watch.recorded - before

    assert [bool(fold(n)) for n in (1, 1, 1)] == [True, True, False]  # also from the start on
    assert [bool(fold(n)) for n in (2, 1, 3)] == [True, False, True]  # 2 is the oldest now
    assert [bool(fold(n)) for n in (1, 2)] == [False, True]


def add(carry: Tensor, batch: Batch, given: Any) -> Tensor:
    return carry + batch.x.sum()


def test_places_that_swap_their_contents() -> None:
    """All new values are there before the first old one is overwritten."""
    data = federation((1,), [3, 2])
    x, y = data.examples.x, data.examples.y
    row = torch.tensor([[[0], [1], [2]], [[3], [4], [4]]])
    real = torch.tensor([[[True], [True], [True]], [[True], [True], [False]]])

    def step(carry: tuple[Tensor, Tensor], batch: Batch, given: Any) -> tuple[Tensor, Tensor]:
        a, b = carry
        return b, a + batch.x.sum()

    drawn = Draw(row, real, torch.zeros_like(real), torch.zeros(2, 3, dtype=torch.int64))
    extent = Extent.of(drawn)

    def one(draw: Draw, key: Tensor) -> tuple[Tensor, Tensor]:
        zero = torch.zeros(())
        return Batches(x, y, draw, key, extent, repeat=Graphs(Again())).fold(step, (zero, zero + 1))

    a, b = vmap(one)(drawn, rng.fold_in(rng.key(0), torch.arange(2)))
    v = x.flatten()
    assert torch.allclose(a, torch.stack([1 + v[1], v[3]]))
    assert torch.allclose(b, torch.stack([v[0] + v[2], 1 + v[4]]))
