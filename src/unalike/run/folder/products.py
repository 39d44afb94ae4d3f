"""What a method produces besides the model: arrays in a file, and pictures of image examples.

The development of such examples is shown as well: every evaluated round leaves a small picture in
its record, and at the end all of them become one animation.
"""

import base64
import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

SIDE = 48  # pixels that an example has at least
FEW = 8  # examples of a class in a moving picture
BAR = 6  # pixels at the bottom that show how much of the run is over
PAUSE, LAST = 300, 2000  # thousandths of a second that a picture stays
SIGNATURE = b"\x89PNG\r\n\x1a\n"
Chunk = tuple[bytes, bytes]


def kept(name: str, arrays: dict[str, Tensor]) -> dict[str, bytes]:
    """The files NAME.npz, and NAME.png if ``x`` and ``y`` are images and their labels."""
    plain = {key: values.detach().cpu().numpy() for key, values in arrays.items()}
    raw = io.BytesIO()
    np.savez(raw, **plain)  # type: ignore[arg-type]
    files = {f"{name}.npz": raw.getvalue()}
    if _images(plain):
        files[f"{name}.png"] = png(grid(plain["x"], plain["y"]))
    return files


def _images(arrays: dict[str, NDArray[Any]]) -> bool:
    x = arrays.get("x")
    return x is not None and "y" in arrays and x.ndim == 4 and x.shape[1] in (1, 3)


def frame(arrays: dict[str, Tensor], over: float) -> str:
    """Some examples of each class as a PNG file in base64, for a record; empty if not images.

    ``over`` is how much of the run is over.
    """
    plain = {key: values.detach().cpu().numpy() for key, values in arrays.items()}
    if not _images(plain):
        return ""
    x, y = plain["x"], plain["y"]
    some = np.concatenate([np.flatnonzero(y == c)[:FEW] for c in np.unique(y)])
    sheet = grid(x[some], y[some])
    bar = np.full((BAR, *sheet.shape[1:]), 225, np.uint8)
    bar[:, : round(over * sheet.shape[1])] = 90
    return base64.b64encode(png(np.concatenate([sheet, bar]))).decode()


def moving(frames: list[str]) -> bytes:
    """Pictures of one size as an animated PNG (of its third edition), which every browser shows."""
    pictures = [dict(_chunks(base64.b64decode(f))) for f in frames]
    size, found, number = pictures[0][b"IHDR"][:8], list[Chunk](), 0
    for i, picture in enumerate(pictures):
        stays = LAST if i + 1 == len(pictures) else PAUSE
        control = struct.pack(">I", number) + size + struct.pack(">IIHHBB", 0, 0, stays, 1000, 0, 0)
        found.append((b"fcTL", control))
        number += 1
        if i == 0:
            found.append((b"IDAT", picture[b"IDAT"]))
            continue
        found.append((b"fdAT", struct.pack(">I", number) + picture[b"IDAT"]))
        number += 1
    count = struct.pack(">II", len(pictures), 0)  # and again, without end
    return _file([(b"IHDR", pictures[0][b"IHDR"]), (b"acTL", count), *found])


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
    lines = image.reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], 1).tobytes()  # no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return _file([(b"IHDR", header), (b"IDAT", zlib.compress(raw, 9))])


def _file(chunks: list[Chunk]) -> bytes:
    def written(kind: bytes, data: bytes) -> bytes:
        end = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + end

    return SIGNATURE + b"".join(written(*chunk) for chunk in (*chunks, (b"IEND", b"")))


def _chunks(raw: bytes) -> Iterator[Chunk]:
    """The chunks of a file that was written here."""
    at = len(SIGNATURE)
    while at < len(raw):
        (size,) = struct.unpack_from(">I", raw, at)
        yield raw[at + 4 : at + 8], raw[at + 8 : at + 8 + size]
        at += size + 12
