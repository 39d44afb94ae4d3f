"""A disk that loses its power: what is left of a folder at the worst, at any moment.

A file's content is on the disk once the file was synced, a name once its folder was. What was not
synced may have reached the disk or not; the two extremes are looked at: ``lost``, nothing did, and
``torn``, all names did (renames and removals too) and no content.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Names = dict[str, tuple[int, bool]]  # name -> (inode, whether it is a folder)


class Cut(NamedTuple):
    """What is left after a cut."""

    root: int
    names: dict[int, Names]  # of every folder, by inode
    content: dict[int, bytes]  # of every file

    def restore(self, place: Path, folder: int | None = None) -> None:
        """As the next start finds it."""
        place.mkdir(exist_ok=True)
        for name, (inode, is_folder) in self.names.get(folder or self.root, {}).items():
            if is_folder:
                self.restore(place / name, inode)
            else:
                (place / name).write_bytes(self.content.get(inode, b""))


class Disk:
    """Watches a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names: dict[int, Names] = {}
        self.content: dict[int, bytes] = {}
        self.cuts: list[tuple[str, Cut, Any]] = []
        self.mark: Any = None  # what each cut is remembered with

    def cut(self) -> None:
        """The power might go just now."""
        root = self.root.stat().st_ino
        now = {Path(at).stat().st_ino: _names(Path(at)) for at, _, _ in os.walk(self.root)}
        for kind, names in (("lost", dict(self.names)), ("torn", now)):
            self.cuts.append((kind, Cut(root, names, dict(self.content)), self.mark))

    def sync(self, descriptor: int) -> None:
        """A file or a folder reaches the disk."""
        held = os.fstat(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_relative_to(self.root):
            self.cut()
            if stat.S_ISDIR(held.st_mode):
                self.names[held.st_ino] = _names(path)
            else:
                self.content[held.st_ino] = path.read_bytes()
            self.cut()


def _names(folder: Path) -> Names:
    return {e.name: (e.inode(), e.is_dir()) for e in os.scandir(folder)}


@contextmanager
def watched(root: Path) -> Iterator[Disk]:
    """A disk that begins with an empty folder, which is on it."""
    disk, real = Disk(root), os.fsync

    def fsync(descriptor: int) -> None:
        disk.sync(descriptor)
        real(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield disk
