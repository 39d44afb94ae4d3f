"""Several runs on one device whose clients train in the same calls: seeds as one more axis.

A round of few clients leaves most of a GPU idle, and a comparison has many runs that differ in
nothing but their seeds or their data. Each run has its own thread and waits for the others only
when its clients are about to train; the last one to arrive computes the clients of all. Runs whose
clients do different work, or that are in another round, train separately.
"""

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unalike import tree
from unalike.draws import Draw
from unalike.engine.client.round import STACKED, Turns
from unalike.engine.compiled.calls import Calls
from unalike.engine.compiled.capture import Capture
from unalike.engine.compiled.cuda_graphs import Graphs
from unalike.engine.compiled.fusing import Fused
from unalike.engine.compiled.traced import Traced
from unalike.engine.simulation.vmapped import Answers, together
from unalike.engine.transport import Ahead
from unalike.parts.participation.schedule import Plan
from unalike.recipe import Kept, Recipe
from unalike.tree import Tree

if TYPE_CHECKING:
    from unalike.engine.simulation.simulate import Simulation


@dataclass(eq=False)
class _Asked:
    """A run that waits for its clients' answers."""

    t: int
    sim: "Simulation"
    plan: Plan
    downs: Tree
    home: Tensor
    kept: Kept
    drawn: Turns
    found: Answers | None = None
    error: BaseException | None = None


@dataclass(eq=False)
class _Joint:
    """What a call of clients of several runs needs of them, as a simulation has it of one."""

    recipe: Recipe
    x: Tensor
    y: Tensor
    batch_size: int
    fuse: Any
    repeat: Graphs | None
    calls: Calls | None
    sizes: Tensor = field(default_factory=lambda: torch.zeros(0))
    traced: Traced | None = None
    shared_out: bool = False
    lazy: dict[bool, bool] = field(default_factory=dict)


class Lockstep:
    """Runs that wait for each other before their clients train."""

    def __init__(self, sims: "Sequence[Simulation]") -> None:
        """None of them has begun."""
        self._left = len(sims)  # runs that have not ended
        self._stopped: BaseException | None = None  # why none may go on
        self._waiting: list[_Asked] = []
        self._turn = threading.Condition()
        self._joint = dict[int, _Joint]()  # by the recipe that it is of
        self._data = dict[Hashable, tuple[Tensor, Tensor]]()  # by the form of an example
        self._sims = list(sims)
        for sim in sims:
            sim.beside = self

    def leave(self) -> None:
        """A run has ended, in whatever way; the others do not wait for it."""
        with self._turn:
            self._left -= 1
            self._serve()

    def stop(self, error: BaseException) -> None:
        """Every run ends with this where its clients would train next."""
        with self._turn:
            self._stopped = error
            self._serve()

    def __call__(
        self,
        t: int,
        sim: "Simulation",
        plan: Plan,
        downs: Tree,
        home: Tensor,
        kept: Kept,
        drawn: Turns,
        ahead: Ahead | None = None,
    ) -> Answers:
        """As ``together``, in round ``t``; nothing is summed ahead: a sum belongs to one run."""
        mine = _Asked(t, sim, plan, downs, home, kept, drawn)
        with self._turn:
            self._waiting.append(mine)
            self._serve()
            self._turn.wait_for(lambda: mine.found is not None or mine.error is not None)
        if mine.error is not None:
            raise mine.error
        assert mine.found is not None, "computed or failed"
        return mine.found

    def _serve(self) -> None:
        """Compute for those that are furthest behind, once all are waiting."""
        if self._stopped is not None:
            for asked in self._waiting:
                asked.error = self._stopped
            self._waiting = []
            self._turn.notify_all()
        if not self._waiting or len(self._waiting) < self._left:
            return
        now = min(asked.t for asked in self._waiting)
        order = {id(sim): i for i, sim in enumerate(self._sims)}  # not that of their coming
        first, *others = sorted(
            (asked for asked in self._waiting if asked.t == now),
            key=lambda asked: order[id(asked.sim)],
        )
        some, clients = [first], len(first.plan.ids)
        for asked in others:
            if clients + len(asked.plan.ids) <= first.sim.chunk and _alike(first, asked):
                some.append(asked)
                clients += len(asked.plan.ids)
        try:
            for asked, found in zip(some, self._computed(some), strict=True):
                asked.found = found
        except BaseException as error:  # whose it is, its thread says
            for asked in some:
                asked.error = error
        self._waiting = [asked for asked in self._waiting if asked not in some]
        self._turn.notify_all()

    def _computed(self, some: list[_Asked]) -> list[Answers]:
        if len(some) == 1:
            one = some[0]
            return [together(one.sim, one.plan, one.downs, one.home, one.kept, one.drawn)]
        ends = list(accumulate((len(asked.plan.ids) for asked in some), initial=0))
        sim = self._made(some[0].sim)
        sim.sizes = torch.cat([asked.sim.sizes[asked.plan.ids] for asked in some])
        _, *fields = zip(*(asked.plan for asked in some), strict=True)
        plan = Plan(torch.arange(ends[-1]), *map(torch.cat, fields))
        servers = list(accumulate((_servers(asked.downs) for asked in some), initial=0))
        home = torch.cat([asked.home + s for asked, s in zip(some, servers, strict=False)])
        downs, kept = (_joined([getattr(a, name) for a in some]) for name in ("downs", "kept"))
        found = together(sim, plan, downs, home, kept, self._turns(some))
        answers = list[Answers]()
        for asked, (a, b) in zip(some, pairwise(ends), strict=True):
            mine: Any = found.wire, found.stats, found.kept
            wire, stats, kept = tree.map(lambda x: x[a:b], mine)  # noqa: B023
            long = None if found.lengths is None else found.lengths[a:b]
            slots = asked.drawn.work.real.numel()
            answers.append(Answers(wire, stats, kept, slots, long))
        return answers

    def _made(self, sim: "Simulation") -> _Joint:
        """New for every stage: what is recorded of a call cannot be used in another."""
        current = {id(other.recipe) for other in self._sims}
        self._joint = {key: joint for key, joint in self._joint.items() if key in current}
        if id(sim.recipe) not in self._joint:
            fuse, repeat, calls = sim.fuse, None, None
            if isinstance(fuse, partial):  # for calls of all runs, as each would for its own
                fuse = partial(Fused, clients=fuse.keywords["clients"] * len(self._sims))
            if sim.repeat is not None:
                room = torch.cuda.get_device_properties(sim.device).total_memory // 8
                repeat = Graphs(Capture(sim.device), room)
                calls = Calls(Capture(sim.device), sim.device, room // 4)
            given = *self._examples(sim), sim.batch_size, fuse, repeat, calls
            self._joint[id(sim.recipe)] = _Joint(sim.recipe, *given)
        return self._joint[id(sim.recipe)]

    def _examples(self, like: "Simulation") -> tuple[Tensor, Tensor]:
        """Those of all runs with examples of one form, one dataset behind the other."""
        if _form(like) not in self._data:
            x, y = zip(*((sim.x, sim.y) for sim in self._distinct(like)), strict=True)
            both = (x[0], y[0]) if len(x) == 1 else (torch.cat(x), torch.cat(y))
            self._data[_form(like)] = both
        return self._data[_form(like)]

    def _distinct(self, like: "Simulation") -> "list[Simulation]":
        """One run of each dataset: seeds deal out the same examples in different ways."""
        some = [sim for sim in reversed(self._sims) if _form(sim) == _form(like)]
        return list({_dataset(sim): sim for sim in some}.values())[::-1]

    def _offset(self, sim: "Simulation") -> int:
        """Where its dataset begins among those of all."""
        before = 0
        for other in self._distinct(sim):
            if _dataset(other) == _dataset(sim):
                break
            before += len(other.x)
        return before

    def _turns(self, some: list[_Asked]) -> Turns:
        work = _draws([self._moved(asked.sim, asked.drawn.work) for asked in some])
        looks = [self._moved(a.sim, a.drawn.look) for a in some if a.drawn.look is not None]
        first, *_ = contexts = [asked.drawn.ctx for asked in some]
        ctx = (
            getattr(first, name)
            if axis is None
            else torch.cat([getattr(c, name) for c in contexts])
            for name, axis in zip(first._fields, STACKED, strict=True)
        )
        return Turns(work, _draws(looks) if looks else None, type(first)(*ctx))

    def _moved(self, sim: "Simulation", drawn: Draw) -> Draw:
        offset = self._offset(sim)
        return drawn._replace(row=drawn.row + offset) if offset else drawn


def _form(sim: "Simulation") -> Hashable:
    """What an example of its data is like."""
    return sim.x.shape[1:], sim.x.dtype, sim.y.shape[1:], sim.y.dtype


def _dataset(sim: "Simulation") -> tuple[int, int, int]:
    """The same for the same examples; some of them may be a part of all, where these begin."""
    x, y = sim.examples.x, sim.examples.y
    return x.data_ptr(), y.data_ptr(), len(x)


def _servers(downs: Tree) -> int:
    leaves = tree.leaves(downs)
    return len(leaves[0]) if leaves else 1


def _joined(parts: list[Tree]) -> Tree:
    """Stacked trees, concatenated; any of them if they have no leaves."""
    return tree.map(lambda *xs: torch.cat(xs), *parts) if tree.leaves(parts[0]) else parts[0]


def _alike(a: _Asked, b: _Asked) -> bool:
    """Whether two runs' clients do the same to different numbers."""
    one, other = a.sim.recipe, b.sim.recipe
    looks = [None if x.drawn.look is None else x.drawn.look.row.shape[2] for x in (a, b)]
    if a.sim.batch_size != b.sim.batch_size or looks[0] != looks[1]:
        return False
    if _form(a.sim) != _form(b.sim):
        return False
    if one is other:
        return True
    try:
        same = one.needs == other.needs and one.mixing.gauges == other.mixing.gauges
        same = same and one.decay(a.t) == other.decay(b.t)  # a call has one learning rate
        return same and all(
            getattr(one, part) == getattr(other, part)
            for part in ("algorithm", "transform", "channel")
        )
    except Exception:  # a part that holds tensors, of one run only, or that cannot be compared
        return False


def _draws(some: list[Draw]) -> Draw:
    """Of clients of several runs, padded to the longest with steps that nobody takes."""
    steps = max(drawn.row.shape[1] for drawn in some)

    def padded(drawn: Draw) -> Draw:
        n, own, width = drawn.row.shape
        more = steps - own
        if not more:
            return drawn
        nothing = drawn.real.new_zeros(n, more, width)
        first = drawn.row[:, :1, :1].expand(n, more, width)
        last = drawn.epoch[:, -1:].expand(n, more)
        ends = first, nothing, nothing, last
        return Draw(*(torch.cat([f, end], 1) for f, end in zip(drawn, ends, strict=True)))

    return Draw(*map(torch.cat, zip(*map(padded, some), strict=True)))
