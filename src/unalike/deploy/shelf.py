"""What a peer has ready for others to fetch, by kind and round.

Peers fetch and nobody pushes: a peer that was killed fetches again, and nothing can arrive twice or
too late. The shelf is on disk as well, since a neighbour may need what a peer sent before it was
killed.
"""

import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from unalike.deploy.frames import opened, pack
from unalike.deploy.messages import Head, Message, MessageError
from unalike.files import new_folder, write

NEWEST = 2  # of a kind stay whatever happens: somebody may have been killed who had fetched them


class Item(NamedTuple):
    """Tensors by name, and small parts."""

    tensors: dict[str, Tensor]
    note: dict[str, Any]


class Shelf:
    """Shared by the thread that computes rounds and those that answer."""

    def __init__(self, folder: Path, peers: int) -> None:
        """Holds what the folder holds; one peer may be as many rounds behind as there are peers."""
        new_folder(folder)
        self.most = peers + NEWEST
        self.folder, self.round = folder, 0  # the round that this peer is in
        self.closed = False
        self._ready = threading.Condition()
        self._items: dict[tuple[str, int], Item] = {}
        self._wanted: dict[tuple[str, int], set[str]] = {}  # by whom it was not fetched yet
        for path in folder.glob("*.msg"):
            what, _, t = path.stem.partition("-")
            try:
                m = opened(path)
            except MessageError:  # others continue without it, as if it had never been sent
                path.unlink()
                continue
            self._items[what, int(t)] = Item(m.tensors, m.note)

    def move(self, t: int) -> None:
        """This peer is in round ``t`` now."""
        with self._ready:
            self.round = max(t, self.round)
            self._ready.notify_all()

    def put(self, what: str, t: int, item: Item, readers: Collection[str] = ()) -> None:
        """Ready for any peer that asks; kept longer while some readers have not."""
        head = Head(kind="answer", run="", number=0, sender="", note=item.note)
        write(self.folder / f"{what}-{t}.msg", pack(Message(head, item.tensors)).pieces())
        with self._ready:
            self._items[what, t] = item
            self._wanted[what, t] = set(readers)
            self._tidy(what)
            self._ready.notify_all()

    def _tidy(self, what: str) -> None:
        """Drop what nobody will fetch any more."""
        held = sorted(t for kind, t in self._items if kind == what)
        for t in held[:-NEWEST]:
            if not self._wanted.get((what, t)) or t in held[: -self.most]:
                del self._items[what, t]
                self._wanted.pop((what, t), None)
                (self.folder / f"{what}-{t}.msg").unlink(missing_ok=True)

    def get(self, what: str, t: int, reader: str, seconds: float = 0.0) -> Item | None:
        """The item, as soon as it is there or it is clear that it will not be."""
        with self._ready:
            self._ready.wait_for(
                lambda: (
                    (what, t) in self._items or (what == "tell" and self.round > t) or self.closed
                ),
                seconds,
            )
            found = self._items.get((what, t))
            if found is not None:
                self._wanted.get((what, t), set()).discard(reader)
                self._ready.notify_all()
            return found

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._ready:
            self.closed = True
            self._ready.notify_all()

    def forget(self, reader: str) -> None:
        """Nothing is kept any longer for a reader that is gone."""
        with self._ready:
            for readers in self._wanted.values():
                readers.discard(reader)
            self._ready.notify_all()

    def fetched(self, what: str, t: int, seconds: float, gone: Collection[str] = ()) -> None:
        """Wait until all readers but those that are gone have an item, at most some seconds."""
        with self._ready:
            self._wanted.get((what, t), set()).difference_update(gone)
            self._ready.wait_for(lambda: not self._wanted.get((what, t)), seconds)
