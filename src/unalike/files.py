"""Files that exist completely or not at all, even after a power cut."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

Data = str | bytes | Iterable[bytes | memoryview]


def write(path: Path, data: Data, *, durable: bool = True) -> None:
    """Write a file, or the parts of one, under another name first, then rename it.

    Unless it is ``durable``, a power cut may lose it; ``sync`` makes up for that later.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        # A device or a pipe: the new file would take its place.
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))
    text = data.encode() if isinstance(data, str) else data
    parts = [text] if isinstance(text, bytes) else text
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as f:
        for part in parts:
            f.write(part)
        if durable:
            f.flush()
            os.fsync(f.fileno())
    temporary.replace(path)
    if durable:
        sync_folder(path.parent)


def new_folder(path: Path) -> None:
    """Make a folder and those above it, unless they are there, so that a power cut leaves them."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def sync(path: Path) -> None:
    """Make sure that what a file holds is on the disk; its name is its folder's to keep."""
    with path.open("rb") as f:
        os.fsync(f.fileno())


def sync_folder(path: Path) -> None:
    """Make sure that the names in a folder are on the disk: what was made, renamed and removed."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a disk that cannot do this
            raise
    finally:
        os.close(folder)
