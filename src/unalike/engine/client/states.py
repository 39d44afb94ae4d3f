"""What clients keep between rounds: a cohort's states are read and written as stacked tensors.

A round costs what its cohort costs, whatever the number of registered clients: a state is made when
it is first needed, a new version never overwrites the previous one (so a round can be rolled back
by forgetting versions), and a checkpoint writes what changed since the last one.

Clients are evaluated on all cores, so any number of threads may read at once; they do nothing else.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import Protocol
from uuid import uuid4
from weakref import finalize

import numpy as np
import torch
from torch import Tensor

from unalike import tree
from unalike.engine.client.shards import Place, Shards
from unalike.tree import Tree

Init = Callable[[Tensor], Tree]  # clients' states before their first round, stacked
Change = Callable[[Tensor, Tree], Tree]  # the same from those that they had in the stage before


class States(Protocol):
    """The kept states of all clients, on one side of the border: none ever crosses it."""

    def begin(self, init: Init) -> None:
        """Forget everything: from here on clients start with ``init``."""
        ...

    def renew(self, init: Init, change: Change, groups: Sequence[Tensor]) -> None:
        """The same, but clients start with what ``change`` makes of what they kept.

        The groups are of neighbours, and all clients are in one of them.
        """
        ...

    def get(self, ids: Tensor) -> Tree:
        """The states of some clients, stacked."""
        ...

    unsound: set[int]  # the clients whose new state was not taken since the last ``settle``

    def put(self, ids: Tensor, kept: Tree) -> None:
        """New states of some clients; one that is not finite is not taken."""
        ...

    def settle(self) -> None:
        """The last round is final: earlier versions can be removed."""
        ...

    def roll_back(self, ids: Iterable[int]) -> None:
        """These clients' states of the last round are forgotten, those before it are back."""
        ...

    @property
    def trained(self) -> Tensor:
        """The clients that put a state since the last ``settle``, ascending."""
        ...

    @property
    def touched(self) -> list[int]:
        """The clients that ever put a state, ascending."""
        ...

    def attach(self, shards: Shards) -> None:
        """Where to save, and where to restore from."""
        ...

    def save(self) -> None:
        """Write what changed since the last save."""
        ...

    def restore(self) -> None:
        """Take back what the shards point to."""
        ...


def sound(kept: Tree) -> Tensor:
    """Which rows hold finite numbers only."""
    fine: Tensor | None = None
    for leaf in tree.leaves(kept):
        if leaf.is_floating_point():
            finite = torch.isfinite(leaf).reshape(len(leaf), -1).all(1)
            fine = finite if fine is None else fine & finite
    if fine is None:
        fine = torch.ones(len(tree.leaves(kept)[0]), dtype=torch.bool)
    return fine.cpu()


def one(init: Init, ids: Tensor) -> Tree:
    """The form of one client's state: that of the first of these, if there are any."""
    return tree.row(init(ids[:1] if len(ids) else torch.zeros(1, dtype=torch.long)), 0)


class InMemory:
    """Rows of one growing tensor for each leaf; a client's state is a row number."""

    def __init__(self, n: int) -> None:
        """For clients 0 to n - 1."""
        self.n = n
        self.shards: Shards | None = None
        self._lock = threading.Lock()  # of rows and of who has which
        self.begin(lambda ids: ())

    def begin(self, init: Init) -> None:
        """Forget everything."""
        self.init = init
        self.like: Tree | None = None  # one client's state, once one was made
        self.rows: Tree | None = None
        self.at = np.full(self.n, -1, dtype=np.int64)  # client -> row
        self.free: list[int] = []
        self.old: dict[int, int] = {}  # client -> its row before the last round; -1: none
        self.ever: set[int] = set()
        self.unsaved: set[int] = set()
        self.unsound = set[int]()
        if self.shards is not None:
            self.shards.clear()

    def renew(self, init: Init, change: Change, groups: Sequence[Tensor]) -> None:
        """Rows of the new stage, in the order of the clients."""
        rows: Tree | None = None
        for ids in groups:
            new = change(ids, self.get(ids))
            if rows is None:
                rows = tree.map(lambda x: x.new_empty((self.n, *x.shape[1:])), new)
            here = slice(int(ids[0]), int(ids[-1]) + 1)
            tree.map(lambda a, b, here=here: a[here].copy_(b), rows, new)
        self.begin(init)
        self.rows, self.like, self.at = rows, tree.row(rows, 0), np.arange(self.n)
        self.ever, self.unsaved = set(range(self.n)), set(range(self.n))

    @property
    def trained(self) -> Tensor:
        """Those of the last round."""
        return torch.tensor(sorted(self.old), dtype=torch.long)

    @property
    def touched(self) -> list[int]:
        """Those of any round."""
        return sorted(self.ever)

    def get(self, ids: Tensor) -> Tree:
        """Rows gathered; a first state is made and remembered."""
        who = ids.cpu().numpy()
        with self._lock:
            if self.like is None:
                self.like = one(self.init, ids)
            if not tree.leaves(self.like):
                return self.like
            fresh = who[self.at[who] < 0]
            if len(fresh):
                self._write(fresh, self.init(torch.from_numpy(fresh)))
            rows, at = self.rows, self.at[who]
        return tree.row(rows, torch.from_numpy(at))  # others write other rows, or rows of their own

    def put(self, ids: Tensor, kept: Tree) -> None:
        """New rows beside the old ones, which wait for ``settle`` or ``roll_back``."""
        if not tree.leaves(kept):
            return
        fine = sound(kept)
        self.unsound.update(ids.cpu()[~fine].tolist())
        who = ids.cpu()[fine].numpy()
        before = dict(zip(who.tolist(), self.at[who].tolist(), strict=True))
        self._write(who, kept if bool(fine.all()) else tree.row(kept, fine))
        for i, row in before.items():
            self.old.setdefault(i, row)
        self.ever.update(before)
        self.unsaved.update(before)

    def _write(self, who: np.ndarray, kept: Tree) -> None:
        if self.rows is None:
            self.rows = tree.map(lambda x: x.new_empty((0, *x.shape[1:])), kept)
        lacking = len(who) - len(self.free)
        if lacking > 0:
            self._grow(max(lacking, len(tree.leaves(self.rows)[0])))
        slots = [self.free.pop() for _ in range(len(who))]
        at = torch.tensor(slots, dtype=torch.long)  # also where nobody's state was sound

        def write(rows: Tensor, new: Tensor) -> None:
            rows[at.to(rows.device)] = new.to(rows.device)

        tree.map(write, self.rows, kept)
        self.at[who] = slots

    def _grow(self, more: int) -> None:
        size = len(tree.leaves(self.rows)[0])
        self.rows = tree.map(lambda x: torch.cat([x, x.new_empty((more, *x.shape[1:]))]), self.rows)
        self.free.extend(range(size + more - 1, size - 1, -1))  # the lowest is taken first

    def settle(self) -> None:
        """Rows before the last round are free."""
        self.free.extend(row for row in self.old.values() if row >= 0)
        self.old, self.unsound = {}, set()

    def roll_back(self, ids: Iterable[int]) -> None:
        """Back to the rows before the last round."""
        for i in ids:
            if i in self.old:
                self.free.append(int(self.at[i]))
                self.at[i] = self.old.pop(i)

    def attach(self, shards: Shards) -> None:
        """Used by ``save`` and ``restore`` alone."""
        self.shards = shards

    def save(self) -> None:
        """A shard of the clients that changed."""
        assert self.shards is not None, "a place to save was attached"
        who = sorted(self.unsaved)
        if who:
            self.shards.write(who, self.get(torch.tensor(who)))
            self.shards.squeeze(self.like)
        self.unsaved = set()

    def restore(self) -> None:
        """Every saved state in memory again."""
        assert self.shards is not None, "a place to restore from was attached"
        who = self.shards.clients
        if who:
            self.like = one(self.init, torch.tensor(who))
            rows = self.shards.read(who, self.like)
            self._write(np.array(who), tree.map(lambda a, b: b.to(a), self.like, rows))
        self.ever = set(who)


class OnDisk:
    """Every state in a file: for populations that do not fit into memory."""

    def __init__(self) -> None:
        """Files are in a temporary folder until shards are attached."""
        self._temporary = Path(gettempdir()) / f"unalike-states-{uuid4().hex}"
        finalize(self, rmtree, self._temporary, ignore_errors=True)
        self.shards = Shards(self._temporary)
        self.begin(lambda ids: ())

    def begin(self, init: Init) -> None:
        """Forget everything."""
        self.init = init
        self.like: Tree | None = None
        self.shards.clear()
        self.old: dict[int, Place | None] = {}
        self.unsound = set[int]()

    def renew(self, init: Init, change: Change, groups: Sequence[Tensor]) -> None:
        """A file of each group."""
        for ids in groups:
            self.shards.write(ids.tolist(), change(ids, self.get(ids)))
        places = self.shards.places
        self.begin(init)
        self.shards.places = places

    @property
    def trained(self) -> Tensor:
        """Those of the last round."""
        return torch.tensor(sorted(self.old), dtype=torch.long)

    @property
    def touched(self) -> list[int]:
        """Those of any round."""
        return self.shards.clients

    def get(self, ids: Tensor) -> Tree:
        """Read from the files, or made."""
        who = ids.tolist()
        if self.like is None:
            self.like = one(self.init, ids)
        if not tree.leaves(self.like):
            return self.like
        known = torch.tensor([i in self.shards for i in who])
        if not known.any():
            return self.init(ids)
        rows = self.shards.read(ids[known].tolist(), self.like)
        rows = tree.map(lambda a, b: b.to(a.device), self.like, rows)
        if known.all():
            return rows
        return tree.map(lambda a, b: _joined(a, b, known), rows, self.init(ids[~known]))

    def put(self, ids: Tensor, kept: Tree) -> None:
        """A file of the cohort."""
        if not tree.leaves(kept):
            return
        fine = sound(kept)
        self.unsound.update(ids.cpu()[~fine].tolist())
        who = ids.cpu()[fine].tolist()
        if who:
            for i in who:
                self.old.setdefault(i, self.shards.places.get(i))
            self.shards.write(who, kept if bool(fine.all()) else tree.row(kept, fine))

    def settle(self) -> None:
        """The last round is final."""
        self.old, self.unsound = {}, set()
        if self.shards.folder == self._temporary:  # no checkpoint will ask for old ones
            self.shards.sweep(before=False)

    def roll_back(self, ids: Iterable[int]) -> None:
        """Back to where the states were."""
        for i in ids:
            if i in self.old:
                self.shards.point(i, self.old.pop(i))

    def attach(self, shards: Shards) -> None:
        """Files are written there from now on."""
        self.shards = shards

    def save(self) -> None:
        """Nothing to write: every state is in a file already."""
        if self.like is not None:
            self.shards.squeeze(self.like)

    def restore(self) -> None:
        """Nothing to read before it is needed."""


def _joined(some: Tensor, others: Tensor, where: Tensor) -> Tensor:
    """Rows in the places that are marked, and others in the rest."""
    both = some.new_empty((len(where), *some.shape[1:]))
    both[where.to(some.device)] = some
    both[~where.to(some.device)] = others
    return both
