"""Local steps on a GPU without Python between them: recorded once, replayed in every round.

A vmapped step launches hundreds of small kernels, and launching takes far longer than computing. A
step reads nothing but its arguments, so these are copied to fixed addresses, and a recording made
there serves every later fold of the same kind.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import mapped, rng, tree
from unalike.batches import Batches
from unalike.draws import Draw
from unalike.errors import RunWarning
from unalike.gradient import counted

Replay = Callable[[], None]
Record = Callable[[Replay], Replay | None]  # None: it cannot be recorded

LENGTHS = (16, 4, 1)  # steps in one recording: what is between them stays where it was computed
WORTH = 6  # steps for which a fold is recorded at once; a shorter one when it comes again
KINDS = 64  # that are remembered
TRIES = 3  # to record something: a library may want to load a kernel, which a first run does


class Reads(NamedTuple):
    """What steps read and do not change."""

    given: Any
    key: Tensor
    first: int | Tensor
    steps: Tensor  # minibatches of each client
    own: Tensor  # steps of each client


class Graphs:
    """Folds by recordings; the results are those of a loop."""

    def __init__(self, record: Record, room: float = float("inf")) -> None:
        """Fixed places take at most ``room`` bytes, or what one kind of fold needs."""
        self._record, self._room = record, room
        self._kinds: OrderedDict[Hashable, Recorded] = OrderedDict()  # the last used at the end
        self._refused = False

    def clear(self) -> None:
        """Forget everything."""
        self._kinds.clear()

    def __call__(
        self, data: Batches, step: Any, carry: Any, given: Any, batches: int
    ) -> tuple[Any, int] | None:
        """(the carry after all steps, gradients that a step takes); None if a loop is better."""
        reads = Reads(given, data.key, data.first, data.steps, data.own(batches))
        form = mapped.kind((carry, reads))
        if self._refused or form is None or not all(map(mapped.inside, data.draw)):
            return None
        fixed = data.transform, id(data.x), id(data.y), data.few(batches), _capacity(data.draw)
        kind = step, batches, form, fixed
        fewest, most = data.extent.folds(batches)
        known = self._kinds.get(kind)
        if known is None:
            known = Recorded(data, step, carry, reads, batches, self._record)
            self._remember(kind, known)
            done = known.warm(fewest, most)
        else:
            self._kinds.move_to_end(kind)
            known.load(carry, reads, data.draw)
            done = 0
        done = known.run(done, fewest, masked=False)
        known.run(done, most, masked=True)
        if known.failures >= TRIES:
            self._refuse()
        return known.result(), known.passes

    def _refuse(self) -> None:
        """Give recording up, and say so."""
        self._refused = True
        self.clear()
        warnings.warn(
            "a local step of this model or method cannot be recorded as a CUDA graph, so steps "
            "are launched one by one, which is slower; engine.graphs = false hides this "
            f"({getattr(self._record, 'why', 'it needs the host')})",
            RunWarning,
            stacklevel=2,
        )

    def _remember(self, kind: Hashable, found: "Recorded") -> None:
        """Also forgets what has not been used for long, if there is too much."""
        self._kinds[kind] = found
        while len(self._kinds) > 1 and (len(self._kinds) > KINDS or self._bytes() > self._room):
            self._kinds.popitem(last=False)

    def _bytes(self) -> int:
        return sum(found.bytes for found in self._kinds.values())


class Recorded:
    """The steps of one kind: places for all that they read and change, and recordings."""

    def __init__(
        self, data: Batches, step: Any, carry: Any, reads: Reads, batches: int, record: Record
    ) -> None:
        """Takes the first step, which shows the form of a carry."""
        self.step, self.batches, self.record, self.data = step, batches, record, data
        with counted() as passes:  # the same in every step, also where Python runs only once
            new = step(carry, data.seen(0, batches), reads.given)
        self.passes, self.failures = sum(passes), 0
        here = data.x.device
        self.start = mapped.Places(carry, here)  # clients may share it, until their first step
        self.carry = mapped.Places(tree.where(reads.own > 0, new, carry), here)
        self.reads = mapped.Places(reads, here)
        room = _capacity(data.draw)
        fields = map(mapped.raw, data.draw)
        self.draw = Draw(*(f.new_zeros(room[: f.ndim]) for f in fields))
        self._take(data.draw)
        self.keys = self.draw.epoch.clone()  # of every minibatch that there is room for
        self.s = torch.ones((), dtype=torch.int64, device=data.x.device)
        self.replays: dict[tuple[int, bool, bool], Replay] = {}

    @property
    def bytes(self) -> int:
        """What the buffers contain."""
        return self.start.bytes + self.carry.bytes + self.reads.bytes + tree.size_bytes(self.draw)

    def load(self, carry: Any, reads: Reads, drawn: Draw) -> None:
        """Begin again with other numbers."""
        self.start.fill(carry)
        self.reads.fill(reads)
        self._take(drawn)
        self.s.zero_()

    def _take(self, drawn: Draw) -> None:
        """Rounds differ in their number of steps; what lies behind the last is never read."""
        for place, field in zip(self.draw, drawn, strict=True):
            new = mapped.raw(field)
            place[:, : new.shape[1]].copy_(new)

    def warm(self, fewest: int, most: int) -> int:
        """Some steps by Python, which loads every kernel: that cannot be done while recording.

        Returns how many are done: all where recording would take longer, should this fold be the
        only one of its kind.
        """
        self._draw_keys(self.reads.tree())
        done = most if most < WORTH else 2
        for s in range(1, done):
            self._steps(1, masked=s >= fewest)
        return done

    def run(self, done: int, end: int, *, masked: bool) -> int:
        """Take the steps up to ``end``; all clients have those that are not ``masked``."""
        for length in LENGTHS:
            while end - done >= length:
                self._replay(length, masked, first=done == 0)()
                done += length
        return done

    def _replay(self, length: int, masked: bool, first: bool) -> Replay:
        which = length, masked, first
        if which not in self.replays:

            def steps() -> None:
                self._steps(length, masked, first)

            recorded = self.record(steps) if self.failures < TRIES else None
            if recorded is None:
                self.failures += 1
                return steps
            self.replays[which] = recorded
        return self.replays[which]

    def _steps(self, length: int, masked: bool, first: bool = False) -> None:
        """Some steps in a row, from the places into the places."""
        reads: Reads = self.reads.tree()
        draw = Draw(*map(mapped.wrap, self.draw))
        data = self.data.placed(draw, mapped.wrap(self.keys), reads.first, reads.steps)
        if first:
            self._draw_keys(reads)
        now = (self.start if first else self.carry).tree()
        for _ in range(length):
            new = self.step(now, data.seen(self.s, self.batches), reads.given)
            now = tree.where(reads.own > self.s, new, now) if masked else new
            self.s.add_(1)
        self.carry.fill(now)

    def _draw_keys(self, reads: Reads) -> None:
        """All at once: a key takes a dozen kernels, whatever their number."""
        steps = torch.arange(self.keys.shape[1], device=self.keys.device)
        self.keys.copy_(mapped.raw(rng.fold_in(reads.key, reads.first + steps)))

    def result(self) -> Any:
        """The carry, out of its places, which the next fold of the kind needs."""
        return self.carry.copy()


def _capacity(drawn: Draw) -> tuple[int, ...]:
    """Steps that there is room for, and the shape of a step's rows."""
    n, steps, *rows = mapped.raw(drawn.row).shape
    return (n, 1 << (steps - 1).bit_length(), *rows)
