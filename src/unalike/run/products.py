"""What a method has made beside the model: arrays in a file, and examples that are images seen."""

import io
import struct
import zlib

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

SIDE = 48  # pixels that an example has at least


def kept(name: str, arrays: dict[str, Tensor]) -> dict[str, bytes]:
    """The files NAME.npz, and NAME.png if ``x`` and ``y`` are images and their labels."""
    plain = {key: values.detach().cpu().numpy() for key, values in arrays.items()}
    raw = io.BytesIO()
    np.savez(raw, **plain)  # type: ignore[arg-type]
    files = {f"{name}.npz": raw.getvalue()}
    x = plain.get("x")
    if x is not None and "y" in plain and x.ndim == 4 and x.shape[1] in (1, 3):
        files[f"{name}.png"] = png(grid(x, plain["y"]))
    return files


def grid(x: NDArray[np.floating], y: NDArray[np.integer]) -> NDArray[np.uint8]:
    """A row of images for each class, [height, width, channels], white between them.

    The lowest number of all images is black and the highest white, or 0 and 1 if none is beyond.
    """
    low, high = min(0.0, float(x.min())), max(1.0, float(x.max()))
    zoom = max(1, -(-SIDE // max(x.shape[2:])))
    small = np.round((x - low) / (high - low) * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    large = small.repeat(zoom, 1).repeat(zoom, 2)
    classes, counts = np.unique(y, return_counts=True)
    h, w = large.shape[1] + 2, large.shape[2] + 2
    sheet = np.full((len(classes) * h + 2, int(counts.max()) * w + 2, x.shape[1]), 255, np.uint8)
    for i, c in enumerate(classes):
        for j, image in enumerate(large[y == c]):
            sheet[i * h + 2 : (i + 1) * h, j * w + 2 : (j + 1) * w] = image
    return sheet


def png(image: NDArray[np.uint8]) -> bytes:
    """An image of one or three channels as a PNG file (ISO/IEC 15948), without a library."""
    height, width, channels = image.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        end = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + end

    lines = image.reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], 1).tobytes()  # no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)
