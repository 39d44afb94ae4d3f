"""Reads a folder of images: CLASS/image, CLIENT/CLASS/image, and either under train/ and test/."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.errors import DataError, no_such
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.extras import require

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L")


def read_images(folder: str | Path, *, size: int = 0) -> "Examples":
    """Examples from images in class-named folders, which may lie in client-named folders.

    All images must have one shape, or are resized to ``size`` x ``size`` pixels. They are grey if
    all are grey, coloured otherwise. Files that are not named like images, and hidden ones, are
    passed over. Folders ``train`` and ``test``, if just these, give the dataset's own test set.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(no_such("folder", root))
    inside = {path.name for path in root.iterdir() if path.is_dir() and path.name[0] != "."}
    has_test = inside == {"train", "test"}
    train = _image_files(root / "train" if has_test else root)
    test = _image_files(root / "test") if has_test else []
    deep = len(train[0].relative_to(root).parts) == (4 if has_test else 3)
    pillow = require("PIL.Image", "image", "reading images")
    pixels = stack(((open_image(pillow, path), str(path)) for path in [*train, *test]), size)
    labels = [path.parent.name for path in [*train, *test]]
    n = len(train)
    examples = from_arrays(
        pixels[:n],
        labels[:n],
        [path.parent.parent.name for path in train] if deep else None,
        test=(pixels[n:], labels[n:]) if has_test else None,
        layout="NHWC",
        name=root.name,
    )
    return replace(examples, reading=examples.reading._replace(form="images", size=size))


def read_pictures(paths: Sequence[Path], size: int, cut: int = 0) -> np.ndarray:
    """Coloured pictures as bytes [N, size, size, 3], each read, cut and resized by itself.

    With ``cut``, first to a square of at most so many pixels in the middle.
    """
    pillow = require("PIL.Image", "image", "reading images")
    out = np.empty((len(paths), size, size, 3), np.uint8)
    for row, path in zip(out, paths, strict=True):
        picture = open_image(pillow, path).convert("RGB")
        if cut:
            side = min(cut, *picture.size)
            left, top = ((n - side) // 2 for n in picture.size)
            picture = picture.crop((left, top, left + side, top + side))
        row[:] = np.asarray(
            picture if picture.size == (size, size) else picture.resize((size, size))
        )
    return out


def stack(images: Iterable[tuple[Any, str]], size: int = 0) -> np.ndarray:
    """Pillow images, each with its name, as bytes [N, H, W, C]; colour if any has colour."""
    arrays: list[np.ndarray] = []
    for image, name in images:
        if image.mode in _DEEP:
            raise DataError(f"'{name}' has more than 8 bits per channel; convert it to 8 bits.")
        picture = image.convert("L" if image.mode in ("L", "1") else "RGB")
        array = np.asarray(picture.resize((size, size)) if size else picture)
        arrays.append(array.reshape(*array.shape[:2], -1))
        if array.shape[:2] != arrays[0].shape[:2]:
            raise DataError(
                f"'{name}' has {array.shape[1]} x {array.shape[0]} pixels, the first image "
                f"{arrays[0].shape[1]} x {arrays[0].shape[0]}; set size to resize all of them."
            )
    channels = max(array.shape[2] for array in arrays)
    return np.stack([np.broadcast_to(a, (*a.shape[:2], channels)) for a in arrays])


def open_image(pillow: Any, path: Path) -> Any:
    """One image, whole in memory."""
    try:
        with pillow.open(path) as image:
            image.load()
            return image
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError):
        raise DataError(f"'{path}' is not an image, or is damaged.") from None


def image_files(root: Path) -> list[Path]:
    """All images in a folder and below, in the order of their names."""
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix.lower() in _SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]


def _image_files(root: Path) -> list[Path]:
    """The images two or three levels down, in the order of their names."""
    files = image_files(root)
    depths = {len(path.relative_to(root).parts) for path in files}
    if not depths:
        raise DataError(
            f"'{root}' holds no images in class-named folders (CLASS/image or CLIENT/CLASS/image)."
        )
    if depths not in ({2}, {3}):
        raise DataError(
            f"'{root}' must hold either CLASS/image or CLIENT/CLASS/image and nothing else, "
            f"but has images {' and '.join(str(d - 1) for d in sorted(depths))} folders down."
        )
    return files
