"""Recordings of whole calls of clients, for cohorts that repeat the amount of work of earlier ones.

Before and after the local steps of a round come a hundred more small kernels, and vmap takes a
millisecond to begin and to end. For a cohort with the same shapes and the same number of steps per
client as an earlier one, all of that is replayed.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from unalike import tree
from unalike.engine.compiled.cuda_graphs import Record, Replay
from unalike.mapped import Places
from unalike.tree import Tree

STEPS = 64  # in one recording at most: it holds all of their kernels
KINDS = 4  # that are kept
SEEN = 1024  # that are remembered


class Calls:
    """Functions of tensors by recordings; the results are those of a call."""

    def __init__(self, record: Record, device: torch.device, room: float = float("inf")) -> None:
        """Fixed places on the device take at most ``room`` bytes for each kind."""
        self._record, self._device, self._room = record, device, room
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._kinds: OrderedDict[Hashable, Recorded] = OrderedDict()  # the last used at the end
        self._refused = False

    def clear(self) -> None:
        """Forget everything."""
        self._seen.clear()
        self._kinds.clear()

    def __call__(self, f: Callable[..., Tree], args: tuple[Any, ...], kind: Hashable) -> Tree:
        """``f(*args)``, or None for a kind of call that has not come before.

        Functions of one ``kind`` take the same tree and do the same to tensors of the same shapes.
        """
        which = kind, _form(args)
        known = self._kinds.get(which)
        if known is not None:
            self._kinds.move_to_end(which)
            return known(args)
        if self._refused or which not in self._seen:
            self._seen[which] = None
            if len(self._seen) > SEEN:
                self._seen.popitem(last=False)
            return None
        if tree.size_bytes([x for x in tree.leaves(args) if isinstance(x, Tensor)]) > self._room:
            return None
        found = Recorded(f, Places(args, self._device), self._record)
        if found.replay is None:
            self._refused = True  # steps may be recorded nevertheless
            return None
        self._kinds[which] = found
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)
        return found(args)


class Recorded:
    """One kind of call: places for its arguments, and what it leaves."""

    def __init__(self, f: Callable[..., Tree], places: Places, record: Record) -> None:
        """Nothing is computed yet."""
        self.places = places
        self.out: Tree = None

        def body() -> None:
            self.out = f(*self.places.tree())

        self.replay: Replay | None = record(body)

    def __call__(self, args: tuple[Any, ...]) -> Tree:
        """The result for other numbers."""
        assert self.replay is not None, "a call that cannot be recorded is not kept"
        self.places.fill(args)
        self.replay()
        return tree.map(lambda x: x.clone() if isinstance(x, Tensor) else x, self.out)


def _form(t: Tree) -> Hashable:
    """Shapes and types; a structure would take longer to look up than all of it to compute."""
    return tuple((x.shape, x.dtype) if isinstance(x, Tensor) else x for x in tree.leaves(t))
