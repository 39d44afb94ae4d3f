"""Reads Hugging Face datasets: by name from the hub or its cache, or from a local folder."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from unalike.errors import DataError
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.extras import require
from unalike.federation.readers.frames import Missing, from_frame
from unalike.federation.readers.images import stack

if TYPE_CHECKING:
    from unalike.federation.data import Examples
    from unalike.kinds import Kind


def read_hub(
    name: str,
    *,
    config: str = "",
    split: str = "train",
    test_split: str = "",
    label: str = "label",
    client: str = "",
    size: int = 0,
    missing: Missing = "error",
    kind: "Kind | None" = None,
) -> "Examples":
    """Examples from the dataset ``name``, or from a folder that ``save_to_disk`` wrote.

    ``test_split`` becomes the dataset's own test set; left empty there is none.
    """
    splits = load_splits(name, config)
    wanted = [split, *([test_split] if test_split else [])]
    absent = [part for part in wanted if part not in splits]
    if absent:
        raise DataError(f"'{name}' has no split '{absent[0]}'; it has {', '.join(splits)}.")
    return from_hub(
        splits[split],
        test=splits[test_split] if test_split else None,
        label=label,
        client=client,
        size=size,
        missing=missing,
        kind=kind,
        name=name.rpartition("/")[2],
    )


def from_hub(
    dataset: Any,
    *,
    test: Any = None,
    label: str = "label",
    client: str = "",
    size: int = 0,
    missing: Missing = "error",
    kind: "Kind | None" = None,
    name: str = "hub",
) -> "Examples":
    """Examples from a ``datasets.Dataset`` with one image column, or with table columns."""
    columns = list(dataset.column_names)
    for column in [label, *([client] if client else [])]:
        if column not in columns:
            raise DataError(f"no column '{column}' in '{name}': it has {', '.join(columns)}.")
    class_names = tuple(getattr(dataset.features[label], "names", None) or ())
    classes = len(class_names) or None
    images = [key for key, kind in dataset.features.items() if type(kind).__name__ == "Image"]
    if len(images) > 1:
        raise DataError(f"'{name}' has {len(images)} image columns; keep one of them.")
    if not images:
        return from_frame(
            dataset.to_polars(),
            label,
            client,
            test=None if test is None else test.to_polars(),
            missing=missing,
            classes=classes,
            class_names=class_names,
            kind=kind,
            name=name,
        )

    def pixels(part: Any) -> Any:
        numbered = enumerate(part[images[0]])
        return stack(((image, f"{name}, row {row}") for row, image in numbered), size)

    return from_arrays(
        pixels(dataset),
        list(dataset[label]),
        list(dataset[client]) if client else None,
        test=None if test is None else (pixels(test), list(test[label])),
        classes=classes,
        class_names=class_names,
        kind=kind,
        layout="NHWC",
        name=name,
    )


def load_splits(name: str, config: str = "") -> dict[str, Any]:
    """The splits of a dataset on the hub, in its cache, or in a local folder."""
    datasets = require("datasets", "hub", f"loading '{name}' from the hub")
    try:
        saved = any((Path(name) / f).is_file() for f in ("dataset_dict.json", "state.json"))
        if saved:
            loaded = datasets.load_from_disk(name)
        else:
            with _offline_if_unreachable():
                loaded = datasets.load_dataset(name, config or None)
    except ConnectionError:
        raise DataError(
            f"the hub cannot be reached and '{name}' is not in its cache; "
            "go online once, or give a folder with the files."
        ) from None
    except Exception as error:  # the hub's own errors have no common base
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise DataError(f"'{name}' cannot be loaded from the hub: {reason}.") from None
    return dict(loaded) if isinstance(loaded, dict) else {"train": loaded}


@contextmanager
def _offline_if_unreachable() -> Iterator[None]:
    """Looks only into the cache where the hub's name does not resolve: else it retries for 23 s."""
    switches = [import_module("huggingface_hub.constants"), import_module("datasets.config")]
    before = [getattr(switch, "HF_HUB_OFFLINE", False) for switch in switches]
    away = not _resolves()
    for switch, was in zip(switches, before, strict=True):
        switch.HF_HUB_OFFLINE = was or away  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for switch, was in zip(switches, before, strict=True):
            switch.HF_HUB_OFFLINE = was  # type: ignore[attr-defined]


def _resolves() -> bool:
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    if {"https", "all"} & set(getproxies()):  # then names are the proxy's to resolve
        return True
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False
