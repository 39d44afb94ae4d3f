"""One client's whole round: from what it receives and has, to what it sends and keeps.

Minibatches and keys are drawn for all clients at once; the rest is computed for each client alone,
in the threads of the sequential engine, in a worker process or at a site.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import rng
from unalike.algorithm import Ctx
from unalike.batches import Batches, Repeat
from unalike.draws import Draw, Extent, alone, draw
from unalike.parts.participation.schedule import Plan
from unalike.recipe import Kept, Recipe, client
from unalike.rng import Key

LOOK = 256  # rows of a minibatch where the received model is measured


class Own(NamedTuple):
    """A client's number and its training examples; no others are needed."""

    id: int
    x: Tensor
    y: Tensor
    order: Tensor  # its rows of x and y, followed by those that a transform repeats
    altered: Tensor  # [len(order)] which of them are repeats
    size: int  # how many it owns, repeats not counted


class Call(NamedTuple):
    """What a server sends a client besides the download."""

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


class Lists(NamedTuple):
    """Whose turn it is, and which rows they own: client i has ``order[starts[i] :][: lengths[i]]``.

    A leading client axis on every field but ``order`` and ``altered``, which are on the device
    that computes; the others may be on the host, so that nothing waits for it.
    """

    ids: Tensor
    order: Tensor  # rows of the dataset
    altered: Tensor  # which of them are repeats
    starts: Tensor
    lengths: Tensor
    sizes: Tensor  # how many each owns, repeats not counted


class Turns(NamedTuple):
    """All that some clients do in a round and know about the moment, stacked."""

    work: Draw
    look: Draw | None  # one pass over their own examples, where the received model is measured
    ctx: Ctx


class Turn(NamedTuple):
    """The same of one client, without the padding of others."""

    work: Draw
    extent: Extent
    look: Draw | None
    looking: Extent | None
    ctx: Ctx


STACKED = Ctx(round=None, key=0, examples=0, role=0, reply=0, rate=None)  # type: ignore[arg-type]


def turns(recipe: Recipe, t: int, lists: Lists, plan: Plan, keys: Keys, batch_size: int) -> Turns:
    """The turns of some clients in round ``t``, drawn at once; each as it would be alone."""
    device = keys.noise.device
    ids = lists.ids.to(device)
    ctx = Ctx(
        torch.tensor(t, device=device),
        rng.client(keys.noise, t, ids),
        lists.sizes.float().to(device),
        plan.role.to(device),
        plan.reply.to(device),
        torch.tensor(recipe.decay(t), device=device),
    )
    work = draw(
        lists.order,
        lists.lengths,
        lists.starts,
        budget=lists.sizes,
        epochs=plan.epochs,
        batch_size=batch_size,
        keys=rng.client(keys.batches, t, ids),
        altered=lists.altered,
    )
    return Turns(work, _look(recipe, lists, keys) if recipe.looks else None, ctx)


def _look(recipe: Recipe, lists: Lists, keys: Keys) -> Draw:
    return draw(
        lists.order,
        lists.sizes,
        lists.starts,
        budget=lists.sizes,
        epochs=torch.ones(len(lists.sizes)),
        batch_size=look_size(recipe, int(lists.sizes.max())),
        keys=rng.client(keys.batches, -1, lists.ids.to(keys.batches.device)),
    )


def apart(them: Turns) -> list[Turn]:
    """Every client's own turn."""
    n = len(them.work.row)
    works = alone(them.work)
    looks = [(None, None)] * n if them.look is None else alone(them.look)
    fields = (f.expand(n) if a is None else f for f, a in zip(them.ctx, STACKED, strict=True))
    contexts = map(Ctx, *(f.unbind() for f in fields))
    return [Turn(*a, *b, c) for a, b, c in zip(works, looks, contexts, strict=True)]


def answer(
    recipe: Recipe,
    x: Tensor,
    y: Tensor,
    turn: Turn,
    down: Any,
    kept: Kept,
    repeat: Repeat | None = None,
) -> Reply:
    """A client's answer. Pure."""
    work, extent, look, looking, ctx = turn
    data = Batches(x, y, work, ctx.key, extent, transform=recipe.transform, repeat=repeat)
    whole = None
    if look is not None and looking is not None:
        whole = Batches(x, y, look, ctx.key, looking, repeat=repeat)
    return Reply(*client(recipe, down, kept, data, whole, ctx))


def round_of(recipe: Recipe, own: Own, call: Call, down: Any, kept: Kept, keys: Keys) -> Reply:
    """The whole round of a client that is alone with its examples. Pure."""
    device = own.x.device

    def whole(n: int) -> Tensor:
        return torch.tensor([n], device=device)

    lists = Lists(
        whole(own.id), own.order, own.altered, whole(0), whole(len(own.order)), whole(own.size)
    )
    epochs = torch.tensor([call.epochs], dtype=torch.float64)
    plan = Plan(whole(own.id), whole(call.role), torch.tensor([call.reply]), epochs)
    batch_size = min(recipe.batch_size, len(own.order))
    (turn,) = apart(turns(recipe, call.round, lists, plan, keys, batch_size))
    return answer(recipe, own.x, own.y, turn, down, kept)


def look_size(recipe: Recipe, largest: int) -> int:
    """Rows of a minibatch where the received model is measured.

    Noise belongs to a place in a minibatch: with noise everybody needs minibatches of one size.
    Otherwise the size is a power of two, so that cohorts of many sizes have few shapes.
    """
    noisy = recipe.algorithm.task.draws or recipe.mixing.gauges
    return LOOK if noisy else min(LOOK, 1 << (largest - 1).bit_length())
