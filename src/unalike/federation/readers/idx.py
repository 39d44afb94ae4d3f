"""Reads idx files, the format MNIST was published in, plain or gzipped."""

import gzip
import zlib
from pathlib import Path

import numpy as np

from unalike.errors import DataError

Pair = tuple[np.ndarray, np.ndarray]


def read_mnist_files(folder: Path) -> tuple[Pair, Pair] | None:
    """((x, y), (test x, test y)) of MNIST's four files, or nothing where they do not lie."""
    found = []
    for part in ("train", "t10k"):
        for what, axes in (("images", 3), ("labels", 1)):
            names = (f"{part}-{what}{dot}idx{axes}-ubyte{gz}" for dot in "-." for gz in (".gz", ""))
            path = next((folder / name for name in names if (folder / name).is_file()), None)
            if path is None:
                return None
            found.append(read_idx(path))
    x, y, test_x, test_y = found
    return (x, y), (test_x, test_y)


def read_idx(path: Path) -> np.ndarray:
    """The bytes of an idx file as an array of the shape its header gives."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error):
        raise DataError(f"'{path}' is damaged; download it again.") from None
    # Header: two zero bytes, 8 for unsigned bytes, the number of axes, each axis as big-endian int.
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise DataError(f"'{path}' is not an idx file of bytes.")
    axes = raw[3]
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", axes, 4))
    body = np.frombuffer(raw, np.uint8, offset=4 + 4 * axes)
    if body.size != np.prod(shape):
        raise DataError(
            f"'{path}' is cut short or too long for its shape {shape}; download it again."
        )
    return body.reshape(shape)
