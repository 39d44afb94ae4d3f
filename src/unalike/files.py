"""Files that are there whole or not at all."""

import os
from pathlib import Path


def write(path: Path, data: str | bytes) -> None:
    """Write a file under another name first, then rename it."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as f:
        f.write(raw)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)
