"""One client's whole round, from what it is told and what it has to what it sends and keeps.

The threads of the sequential engine, a worker process and a site of its own call this function.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import rng
from unalike.algorithm import Ctx
from unalike.batches import Batches, Extent, alone, draw
from unalike.recipe import Kept, Recipe, client
from unalike.rng import Key

LOOK = 256  # rows of a minibatch where the received model is measured


class Own(NamedTuple):
    """A client's number and its training examples; nobody else's are needed."""

    id: int
    x: Tensor
    y: Tensor
    order: Tensor  # its rows of x and y, followed by those that a transform repeats
    altered: Tensor  # [len(order)] which of them are repeats
    size: int  # how many it owns, repeats not counted


class Call(NamedTuple):
    """What a server tells a client beside the download."""

    round: int
    role: int
    reply: bool  # whether it is to answer; else it trains and keeps the result
    epochs: float


class Keys(NamedTuple):
    """The streams of a run's seed that clients draw from."""

    batches: Key
    noise: Key
    init: Key

    @classmethod
    def of(cls, seed: int, device: torch.device | str = "cpu") -> "Keys":
        """The streams on a device."""
        batches, noise, init = (
            rng.stream(seed, name).to(device) for name in ("batches", "noise", "init")
        )
        return cls(batches, noise, init)


class Reply(NamedTuple):
    """What a client sends, what it reports, and what it keeps to itself."""

    wire: Any
    stats: dict[str, Tensor]
    kept: Kept


def round_of(
    recipe: Recipe, own: Own, call: Call, down: Any, kept: Kept, keys: Keys
) -> tuple[Reply, int]:
    """(the client's answer, the places of its minibatches). Pure."""
    device = own.x.device
    who = torch.tensor([own.id], device=device)
    size = torch.tensor([own.size], device=device)
    start = torch.zeros(1, dtype=torch.long, device=device)
    ctx = Ctx(
        torch.tensor(call.round, device=device),
        rng.client(keys.noise, call.round, who)[0],
        size[0].float(),
        torch.tensor(call.role, device=device),
        torch.tensor(call.reply, device=device),
        torch.tensor(recipe.decay(call.round), device=device),
    )
    work = draw(
        own.order,
        torch.tensor([len(own.order)], device=device),
        start,
        budget=size,
        epochs=torch.tensor([call.epochs], dtype=torch.float64, device=device),
        batch_size=min(recipe.batch_size, len(own.order)),
        keys=rng.client(keys.batches, call.round, who),
        altered=own.altered,
    )
    mine, extent = alone(work, Extent.of(work), 0)
    data = Batches(own.x, own.y, mine, ctx.key, extent, transform=recipe.transform)
    whole = None
    if recipe.looks:
        look = draw(
            own.order,
            size,
            start,
            budget=size,
            epochs=torch.ones(1, device=device),
            batch_size=look_size(recipe, own.size),
            keys=rng.client(keys.batches, -1, who),
        )
        seen, extent = alone(look, Extent.of(look), 0)
        whole = Batches(own.x, own.y, seen, ctx.key, extent)
    answer = Reply(*client(recipe, down, kept, data, whole, ctx))
    return answer, work.real.numel()


def look_size(recipe: Recipe, largest: int) -> int:
    """Rows of a minibatch where the received model is measured.

    Noise belongs to a place in a minibatch: with noise everybody needs minibatches of one size.
    """
    noisy = recipe.algorithm.task.draws or recipe.mixing.gauges
    return LOOK if noisy else min(LOOK, largest)
