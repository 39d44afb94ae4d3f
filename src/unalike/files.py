"""Files that are there whole or not at all."""

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


def sync(path: Path) -> None:
    """Make sure that a file is on the disk."""
    with path.open("rb") as f:
        os.fsync(f.fileno())
