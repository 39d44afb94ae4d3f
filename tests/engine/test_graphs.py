"""Steps that are repeated in place are the steps of a loop; recording them needs a GPU."""

from collections.abc import Callable, Hashable
from typing import Any

import pytest
import torch
from federations import composed, federation, network_task, play, same, sampled
from torch import Tensor
from torch.func import vmap

from unalike import rng
from unalike.batches import Batch, Batches, Draw, Extent
from unalike.engine.simulate import Simulation
from unalike.parts.optim import Adam


def again(body: Callable[[], None], times: int, kind: Hashable) -> None:
    """What a replayed recording does, done by hand."""
    for _ in range(times):
        body()


# Carries of every kind: moments, a shift, two models, weights, two parts, changed rows, features.
KINDS = ["fedavg", "scaffold", "superfed_mm", "term", "lg_fedavg", "fedaug", "fedevg"]


@pytest.mark.parametrize("method", KINDS)
def test_methods_in_place(method, monkeypatch):
    task, data = network_task("dense")
    special = {"fedevg": {"per_class": 2}, "lg_fedavg": {"step": "sequential"}}
    settings = special.get(method, {})
    parts = {"opt": Adam(0.01)} if method in ("fedavg", "lg_fedavg") else {}
    recipe = composed(task, data, (method, settings), rounds=2, **sampled(1.0, 2.0), **parts)
    looped = play(recipe, data, 2, batch_size=3)
    prepare = Simulation.__init__

    def prepared(self: Simulation, *args: Any, **options: Any) -> None:
        prepare(self, *args, **options)
        self._repeat = again

    monkeypatch.setattr(Simulation, "__init__", prepared)
    repeated = play(recipe, data, 2, batch_size=3)
    assert same(looped.states[-1].servers, repeated.states[-1].servers)
    assert same(looped.kept[-1], repeated.kept[-1])


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
        return Batches(x, y, draw, key, extent, repeat=again).fold(step, (zero, zero + 1))

    a, b = vmap(one)(drawn, rng.fold_in(rng.key(0), torch.arange(2)))
    v = x.flatten()
    assert torch.allclose(a, torch.stack([1 + v[1], v[3]]))
    assert torch.allclose(b, torch.stack([v[0] + v[2], 1 + v[4]]))
