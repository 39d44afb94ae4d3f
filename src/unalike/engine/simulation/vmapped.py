"""Many clients in one vmapped call: on a GPU all operations, on a CPU all but their local steps."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import vmap

from unalike import tree
from unalike.algorithm import Ctx
from unalike.batches import Batches, Repeat
from unalike.draws import Draw, Extent, narrowed
from unalike.engine.client.round import STACKED, Turns, look_size
from unalike.engine.compiled.calls import STEPS, Calls
from unalike.engine.compiled.cuda_graphs import Graphs
from unalike.engine.compiled.lazy import Lazy, Part, Wanted
from unalike.engine.compiled.traced import Traced
from unalike.engine.server.gather import lengths
from unalike.engine.transport import Ahead
from unalike.native.program import Crew, Summing
from unalike.parts.participation.schedule import Plan
from unalike.recipe import Kept, Recipe, client
from unalike.tree import Tree

_CHECKING = threading.Lock()


class Simulated(Protocol):
    """What a simulation has that a call of some of its clients needs."""

    recipe: Recipe
    x: Tensor
    y: Tensor
    sizes: Tensor
    batch_size: int
    fuse: Callable[[Any], Any] | None  # compiles steps, on a GPU
    repeat: Graphs | None  # records them
    calls: Calls | None  # and whole calls
    traced: Traced | None  # or loops over them, on a CPU
    lazy: dict[bool, bool]  # whether steps may wait, of clients of one server or of several

    @property
    def shared_out(self) -> bool:
        """Whether calls are shared out to workers of one core each."""
        ...


class Answers(NamedTuple):
    """Of the clients of one call, stacked."""

    wire: Tree
    stats: dict[str, Tensor]
    kept: Kept
    slots: int  # places of rows in their minibatches
    lengths: Tensor | None = None  # of what they send, where it is cheap to measure
    parts: list[Part] = []  # instead of what they send: sums over pieces of the call
    total: Tree = None  # its sum, made before it is known whether all of it may be summed

    def settled(self, ahead: Ahead | None) -> "Answers":
        """All numbers on the host, which waits for the device once."""
        if self.lengths is None or self.parts:
            return self._replace(stats=tree.on_host(self.stats))
        stats, rough = tree.on_host((self.stats, self.lengths))  # exact in double precision
        long, parts = tree.sure(rough, self.wire), list[Part]()
        if self.total is not None and ahead is not None:
            sane = all(bool(torch.isfinite(x).all()) for x in stats.values())
            if sane and bool((long <= ahead.longest).all()):
                parts = [Part(slice(0, len(long)), (), [self.total])]
        return self._replace(stats=stats, lengths=long, parts=parts)


def one_server(downs: Tree) -> bool:
    """Whether all clients receive the same."""
    leaves = tree.leaves(downs)
    return not leaves or len(leaves[0]) == 1


def together(
    sim: Simulated,
    plan: Plan,
    downs: Tree,
    home: Tensor,
    kept: Tree,
    drawn: Turns,
    ahead: Ahead | None = None,
    crew: Crew | None = None,
) -> Answers:
    """What the clients of a plan answer; with a crew for local steps that wait."""
    shared = one_server(downs)
    # A server may keep a number on the host: one for all clients can stay there, one each cannot.
    down = tree.row(downs, 0) if shared else tree.to(tree.rows(downs, home), sim.x.device)
    work, whole, ctx = drawn
    sizes = sim.sizes[plan.ids]
    if sim.shared_out:
        work = narrowed(work, int(sizes.max()))
    extent = Extent.ahead(sizes, plan.epochs, sim.batch_size)
    looking = None
    if whole is not None:
        size = look_size(sim.recipe, int(sizes.max()))
        looking = Extent.ahead(sizes, torch.ones(len(sizes)), size)

    def clients(repeat: Repeat | None) -> Callable[..., Any]:
        def one(down: Any, kept: Kept, work: Draw, whole: Draw | None, ctx: Ctx) -> Any:
            x, y, key, transform = sim.x, sim.y, ctx.key, sim.recipe.transform
            how: Any = {"repeat": repeat, "fuse": sim.fuse}
            data = Batches(x, y, work, key, extent, transform=transform, **how)
            look = None
            if whole is not None and looking is not None:
                look = Batches(x, y, whole, key, looking, **how)
            found = client(sim.recipe, down, kept, data, look, ctx)
            return repeat.answers(*found) if isinstance(repeat, Lazy) else found

        dims = (None if shared else 0, 0, 0, 0 if whole else None, STACKED)
        return vmap(one, in_dims=dims)

    args, found = (down, kept, work, whole, ctx), None
    # To the device while it has nothing else to do: a copy from the host waits for all before it.
    u = ahead.u.to(sim.x.device) if sim.calls is not None and ahead is not None else None
    if sim.calls is not None and extent.folds(1)[1] <= STEPS:
        kind = shared, extent.steps.tobytes(), looking and looking.steps.tobytes()
        found = sim.calls(clients(None), args, (*kind, id(sim.x)))
    long, parts = None, list[Part]()
    if found is None and sim.traced is not None and sim.traced.native:
        if not plan.reply.all():  # who does not answer is in no sum
            ahead = None
        found, long, parts = _late(sim, clients, args, shared, ahead, crew)
    if found is None:
        found = clients(sim.repeat or (sim.traced and sim.traced.by(crew)))(*args)
    wire, stats, after = found
    if sim.shared_out and not sim.recipe.channel and not parts:  # here all cores do it
        known = long is not None and bool(torch.isfinite(long).all())
        long = long if known else lengths(wire, len(sizes))
    total: Tree = None
    if sim.calls is not None and not sim.recipe.channel and tree.leaves(wire):
        long = tree.rough(wire)  # not waited for
        total = None if u is None else tree.mean(u, wire)
    # Where a program takes the steps nobody takes those of a longer client.
    slots = int(extent.steps.sum()) * work.real.shape[2] if sim.shared_out else work.real.numel()
    return Answers(wire, stats, after, slots, long, parts, total)


def _late(
    sim: Simulated,
    clients: Callable[[Repeat | None], Callable[..., Any]],
    args: tuple[Any, ...],
    shared: bool,
    ahead: Ahead | None,
    crew: Crew | None,
) -> tuple[Any, Tensor | None, list[Part]]:
    """(answers, lengths, sums) with steps that wait for the end of a client's half; or nothing.

    Before it is used the results must be those of steps that do not wait, bit by bit.
    """
    assert sim.traced is not None, "asked before"
    try:
        with _CHECKING:  # others wait: whether a sum is made must not depend on who is first
            if shared not in sim.lazy:
                sim.lazy[shared] = False
                first = Lazy(sim.traced)
                found = clients(first)(*args)
                if not first.waited:
                    return found, None, []
                both = tree.leaves(clients(sim.traced)(*args)), tree.leaves(found)
                alike = len(both[0]) == len(both[1]) and all(map(_alike, *both))
                sim.lazy[shared] = alike
        if not sim.lazy[shared]:
            return None, None, []
        summing = None if ahead is None else Summing(*ahead)
        lazy = Lazy(sim.traced, summing, crew)
        return clients(lazy)(*args), lazy.lengths, lazy.parts
    except Wanted:
        sim.lazy[shared] = False
        return None, None, []


def _alike(a: Tensor, b: Tensor) -> bool:
    """Whether all numbers are the same; what is none must be none in both."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())
