"""Files that are there whole or not at all."""

import errno
import os
from pathlib import Path


def write(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Write a file under another name first, then rename it.

    Unless it is ``durable``, a power cut may lose it; ``sync`` makes up for that later.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        # A device or a pipe: the new file would take its place.
        raise OSError(errno.EINVAL, "it is a device or a pipe and not a file", str(path))
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as f:
        f.write(raw)
        if durable:
            f.flush()
            os.fsync(f.fileno())
    temporary.replace(path)


def sync(path: Path) -> None:
    """Make sure that a file is on the disk."""
    with path.open("rb") as f:
        os.fsync(f.fileno())
