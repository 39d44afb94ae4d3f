"""Examples from objects in memory: arrays, frames, datasets, or one of these for each client."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from unalike.errors import ConfigError, DataError, unknown
from unalike.federation.columns import Learn
from unalike.federation.data import Examples
from unalike.federation.datasets.base import Dataset
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.frames import from_frame
from unalike.federation.readers.hub import from_hub
from unalike.kinds import Kind

OF_FRAMES = ("missing", "drop", "normalise", "protected", "split", "together")  # as of files


def examples_of(
    data: Any,
    label: str = "label",
    client: str = "",
    task: Learn = "auto",
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Examples:
    """Examples from a dataset of any of the kinds that are in use.

    Args:
        data: Examples, a named dataset, arrays ``(x, y)`` or ``(x, y, groups)``, a pandas or
            polars frame, a ``datasets.Dataset``, a PyTorch dataset, or a mapping from clients'
            names to arrays ``(x, y)`` or PyTorch datasets.
        label: The column to predict, of a frame or a ``datasets.Dataset``.
        client: The column that names each row's client.
        task: "regression" learns the numbers that labels are; "auto" does so where they are plainly
            measurements.
        settings: How a frame is read, as ``from_frame`` and the table ``[data]`` have it.
    """
    framed = hasattr(data, "collect_schema") or (hasattr(data, "columns") and hasattr(data, "iloc"))
    for name in settings:
        if not framed:
            raise ConfigError(f"'data.{name}' is for a pandas or polars frame; leave it out.")
        if name not in OF_FRAMES:
            raise unknown("setting of data", name, OF_FRAMES)
    if task not in get_args(Learn):
        raise unknown("task", str(task), get_args(Learn))
    kind: Kind | None = None if task == "auto" else task
    if kind and isinstance(data, Dataset | Examples):
        raise ConfigError("'task' is for arrays and frames; a dataset has its own setting.")
    if isinstance(data, Dataset):
        return data.load()
    if isinstance(data, Examples):
        return data
    if isinstance(data, tuple) and len(data) in (2, 3):
        return from_arrays(*data, kind=kind)
    if isinstance(data, Mapping):
        return from_arrays(*of_clients(data), kind=kind)
    if hasattr(data, "column_names") and hasattr(data, "features"):
        return from_hub(data, label=label, client=client, kind=kind)
    if framed:
        return from_frame(data, label, client, kind=kind, **settings)
    plain = isinstance(data, str | list | tuple) or hasattr(data, "dtype")
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not plain:
        return from_arrays(*_stacked(data, "the dataset"), kind=kind)
    raise ConfigError(
        "data must be a named dataset, (x, y) or (x, y, groups), a pandas or polars frame, a "
        "PyTorch or Hugging Face dataset, or a mapping from clients to such, got "
        f"{type(data).__name__}."
    )


def of_clients(data: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(x, y, groups)`` of one dataset for each client."""
    if not data:
        raise DataError("a mapping from clients to data must name at least one client.")
    parts = []
    for name, own in data.items():
        pair = own if isinstance(own, tuple) and len(own) == 2 else _stacked(own, f"client {name}")
        parts.append((np.asarray(pair[0]), np.asarray(pair[1])))
    shapes = {x.shape[1:] for x, _ in parts}
    if len(shapes) > 1:
        one, other = sorted(shapes)[:2]
        raise DataError(f"clients have rows of shape {one} and of shape {other}; make them equal.")
    groups = np.repeat([str(name) for name in data], [len(x) for x, _ in parts])
    x, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return x, y, groups


def _stacked(dataset: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """The pairs (x, y) of a dataset with a length, as two arrays."""
    xs, ys = [], []
    for i in range(len(dataset)):
        item = dataset[i]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(f"{what} must give pairs (x, y), got {type(item).__name__} at {i}.")
        xs.append(np.asarray(item[0]))
        ys.append(np.asarray(item[1]))
    if not xs:
        raise DataError(f"{what} has no rows.")
    if len({x.shape for x in xs}) > 1:
        raise DataError(f"the rows of {what} differ in shape; make them equal.")
    return np.stack(xs), np.stack(ys)
