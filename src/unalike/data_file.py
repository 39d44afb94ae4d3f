"""Data in memory written to a file, for runs in separate processes."""

import io
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from unalike.errors import ConfigError
from unalike.federation.anything import of_clients
from unalike.federation.readers.frames import as_polars
from unalike.files import write

CLIENT = "client"  # the key of each row's client in a file of arrays


def data_table(data: Any, folder: Path, label: str = "", client: str = "") -> dict[str, Any]:
    """The table ``data`` of a configuration, for the name of a dataset, a file, or data in memory.

    What is in memory is written to the folder, under a name that says what it holds: the same data
    again are the same file.

    Args:
        data: The name of a dataset, a path, a pandas or polars frame, arrays ``(x, y)`` or
            ``(x, y, groups)``, or a mapping from clients' names to arrays ``(x, y)``.
        folder: Where a file may be written.
        label: The column to predict, of a table.
        client: The column that names each row's client, of a table; or the key of an NPZ file.
    """
    columns = {k: v for k, v in (("label", label), ("client", client)) if v}
    if isinstance(data, str | Path):
        path = Path(data)
        if path.suffix or path.exists():
            return {"name": "files", "path": str(data), **columns}
        return {"name": str(data), **columns}
    if hasattr(data, "collect_schema") or (hasattr(data, "columns") and hasattr(data, "iloc")):
        raw = io.BytesIO()
        as_polars(data).write_parquet(raw)
        return {"name": "files", "path": _kept(raw, folder, ".parquet"), **columns}
    if isinstance(data, Mapping):
        data = of_clients(data)
    if isinstance(data, tuple) and len(data) in (2, 3):
        arrays = dict(zip(("x", "y", CLIENT), map(np.asarray, data), strict=False))
        raw = io.BytesIO()
        np.savez(raw, **arrays)  # type: ignore[arg-type]
        whose = {"client": CLIENT} if CLIENT in arrays else {}
        return {"name": "files", "path": _kept(raw, folder, ".npz"), **whose}
    raise ConfigError(
        "a comparison takes the name of a dataset, a file, a pandas or polars frame, arrays (x, y) "
        f"or (x, y, groups), or arrays by client, got {type(data).__name__}."
    )


def _kept(raw: io.BytesIO, folder: Path, suffix: str) -> str:
    held = raw.getvalue()
    path = folder / f"data-{sha256(held).hexdigest()[:12]}{suffix}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(path, held)
    return str(path)
