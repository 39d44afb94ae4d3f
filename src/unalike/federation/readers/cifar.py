"""Reads CIFAR's binary version and a compact lossless coding of it; never the pickled version."""

from pathlib import Path

import numpy as np

from unalike.errors import DataError
from unalike.federation.readers.npz import load_npz

_PIXELS = 3 * 32 * 32


def read_binary(paths: list[Path], label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, 3, 32, 32] and labels [N, label_bytes] of the published .bin files."""
    row = label_bytes + _PIXELS
    parts = []
    for path in paths:
        raw = np.fromfile(path, np.uint8)
        if raw.size == 0 or raw.size % row:
            raise DataError(f"'{path}' is not made of whole {row}-byte records; download it again.")
        parts.append(raw.reshape(-1, row))
    table = np.concatenate(parts)
    return table[:, label_bytes:].reshape(-1, 3, 32, 32), table[:, :label_bytes]


def read_delta(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, 3, 32, 32] and labels [N] from planes G, R-G, B-G differenced modulo 256.

    Key ``d`` [3, N, 32, 32] is differenced along rows and columns, so two sums that wrap at 256
    undo it; key ``y`` holds the labels.
    """
    arrays = load_npz(path)
    if not {"d", "y"} <= set(arrays):
        raise DataError(f"'{path}' must hold d and y; its keys are {', '.join(sorted(arrays))}.")
    planes = arrays["d"].cumsum(2, dtype=np.uint8).cumsum(3, dtype=np.uint8)
    green, red, blue = planes
    return np.stack([red + green, green, blue + green], axis=1), arrays["y"]
