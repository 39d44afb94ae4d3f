"""Clients' states in files: each write is a new file, so whatever an index points to stays there.

A shard holds the states of some clients, stacked, as safetensors. The index says in which row of
which shard a client's newest state is; an index of an earlier round restores the states of that
round, until ``sweep`` removes what neither index points to.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unalike import tree
from unalike.errors import Damaged
from unalike.files import new_folder, sync, sync_folder, write
from unalike.tree import Tree


class Place(NamedTuple):
    """Where a state is."""

    shard: int
    row: int


class Shards:
    """A folder of shards, and the index into them."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read or written yet."""
        self.folder = folder
        self.places: dict[int, Place] = {}
        self.saved: dict[int, Place] = {}  # what the last proven checkpoint points to
        self.digests: dict[int, str] = {}
        self.loose: set[int] = set()  # shards that a power cut might lose
        self.next = 0

    def __contains__(self, client: int) -> bool:
        return client in self.places

    @property
    def clients(self) -> list[int]:
        """Those that have a state, ascending."""
        return sorted(self.places)

    def clear(self) -> None:
        """Point to nothing."""
        self.places = {}

    def point(self, client: int, place: Place | None) -> None:
        """A client's state is there, or there is none."""
        self.places.pop(client, None)
        if place is not None:
            self.places[client] = place

    def write(self, clients: Sequence[int], stacked: Tree) -> None:
        """One more shard."""
        new_folder(self.folder)
        flat = {k: v.detach().cpu().contiguous() for k, v in tree.named(stacked).items()}
        raw = save(flat)
        write(self.path(self.next), raw, durable=False)
        self.loose.add(self.next)
        self.digests[self.next] = hashlib.blake2b(raw, digest_size=16).hexdigest()
        for row, client in enumerate(clients):
            self.places[client] = Place(self.next, row)
        self.next += 1

    def read(self, clients: Sequence[int], like: Tree) -> Tree:
        """The states of some clients, stacked in that order; ``like`` is one of them."""
        names = list(tree.named(like))
        rows: dict[str, list[Tensor]] = {name: [torch.empty(0)] * len(clients) for name in names}
        by_shard: dict[int, list[int]] = {}
        for j, client in enumerate(clients):
            by_shard.setdefault(self.places[client].shard, []).append(j)
        for shard, here in by_shard.items():
            try:
                with safe_open(self.path(shard), "pt") as f:
                    for name in names:
                        held = f.get_slice(name)
                        for j in here:
                            row = self.places[clients[j]].row
                            rows[name][j] = held[row : row + 1][0]
            except (SafetensorError, OSError, IndexError) as error:
                raise Damaged(
                    f"'{self.path(shard)}' is damaged ({error}); restore it from a copy."
                ) from None
        return tree.restore({name: torch.stack(each) for name, each in rows.items()}, like)

    def index(self) -> dict[str, Tensor]:
        """What a checkpoint has to remember."""
        entries = [(i, *self.places[i]) for i in self.clients]
        return {"states": torch.tensor(entries, dtype=torch.int64).reshape(-1, 3)}

    def notes(self) -> dict[str, str]:
        """The digest of every shard that the index points to, and the number of the next one."""
        live = sorted({p.shard for p in self.places.values()})
        return {"shards": str(self.next), **{f"shard:{n}": self.digests[n] for n in live}}

    def load(self, index: Tensor, notes: dict[str, str]) -> None:
        """Point to where a checkpoint points, if the shards are what they were then."""
        found = {int(i): Place(int(shard), int(row)) for i, shard, row in index.tolist()}
        for n in sorted({p.shard for p in found.values()}):
            path = self.path(n)
            raw = path.read_bytes() if path.is_file() else b""
            digest = hashlib.blake2b(raw, digest_size=16).hexdigest()
            if digest != notes.get(f"shard:{n}"):
                raise Damaged(
                    f"'{path}' is not what the checkpoint was made with; restore it from a copy."
                )
            self.digests[n] = digest
        # Numbering continues as if nothing had been written since: such shards are written again.
        self.places, self.saved, self.next = found, dict(found), int(notes["shards"])

    def sync(self) -> None:
        """Onto the disk, since a checkpoint that outlives its shards could not be used."""
        live = {p.shard for p in self.places.values()}
        new = sorted(self.loose & live)
        for n in new:
            sync(self.path(n))
        if new:
            sync_folder(self.folder)
        self.loose.clear()

    def squeeze(self, like: Tree) -> None:
        """Move the last states out of shards that hold little else than old ones."""
        live = Counter(p.shard for p in self.places.values())
        size = {n: self._rows(n) for n in live}
        moving = [i for i, p in self.places.items() if live[p.shard] * 4 < size[p.shard]]
        if moving:
            self.write(moving, self.read(moving, like))

    def sweep(self, before: bool = True) -> None:
        """A checkpoint with this index is on the disk: remove what nothing points to.

        Unless ``before`` is false, the checkpoint before it stays usable, too.
        """
        earlier, self.saved = self.saved, dict(self.places)
        pointing = [*self.saved.values(), *(earlier.values() if before else ())]
        live = {p.shard for p in pointing}
        for path in self.folder.glob("*.safetensors"):
            if int(path.stem) not in live:
                path.unlink(missing_ok=True)
                self.digests.pop(int(path.stem), None)

    def _rows(self, shard: int) -> int:
        with safe_open(self.path(shard), "pt") as f:
            return int(f.get_slice(next(iter(f.keys()))).get_shape()[0])

    def path(self, shard: int) -> Path:
        """Where a shard is."""
        return self.folder / f"{shard:08d}.safetensors"
