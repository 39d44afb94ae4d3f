"""Folders of images: damaged, of other kinds, too large, and in odd places."""

import io
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from breaking.corpus import EITHER, REFUSED, WORKS, Case
from breaking.server import Limits
from PIL import Image

KIND = "images"
ROOMY = Limits(seconds=60, memory=6 << 30)
SETTINGS = (
    'rounds = 1\ndata = {{name = "files", path = "images"{}}}\n'
    'partition = {{name = "iid", clients = 2}}\nmodel = "logistic"\n'
)


def pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 255, shape, dtype=np.uint8)


def encoded(kind: str, picture: "Image.Image | np.ndarray", **options: Any) -> bytes:
    raw = io.BytesIO()
    made = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    made.save(raw, kind, **options)
    return raw.getvalue()


@cache
def plain(i: int) -> bytes:
    return encoded("png", np.random.default_rng(i).integers(0, 255, (8, 8, 3), dtype=np.uint8))


def case(
    name: str, want: str, make: Callable[[Path], object], more: str = "", command: str = "skew"
) -> Case:
    def prepare(place: Path) -> None:
        for label in "ab":
            (place / "images" / label).mkdir(parents=True)
            for i in range(10):
                (place / "images" / label / f"{i}.png").write_bytes(plain(i))
        make(place / "images")

    files = {"c.toml": SETTINGS.format(more)}
    return Case(KIND, name, want, [command, "c.toml"], files, prepare=prepare, limits=ROOMY)


def put(name: str, kind: str, picture: Callable[[], Any], **options: Any) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(encoded(kind, picture(), **options)) and None


def fuzzed(kind: str, seed: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        draw, data = random.Random(f"{kind} {seed}"), bytearray(encoded(kind, pixels(8, 8, 3)))
        for _ in range(4):
            data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
        (folder / "a" / f"z.{ {'jpeg': 'jpg'}.get(kind, kind) }").write_bytes(data)

    return make


def _without(*labels: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for label in labels:
            shutil.rmtree(folder / label)

    return make


def _cut(folder: Path) -> None:
    (folder / "a" / "0.png").write_bytes(plain(0)[:60])


def _name_of_bytes(folder: Path) -> None:
    Path(bytes(folder / "a").decode() + "/\udcff.png").write_bytes(plain(0))


grey = [Image.fromarray(pixels(8, 8))] * 3
CASES = [
    case("plain", WORKS, lambda folder: None, command="run"),
    case("an empty file", REFUSED, lambda folder: (folder / "a/z.png").write_bytes(b"")),
    case("text", REFUSED, lambda folder: (folder / "a/z.png").write_text("hi")),
    case("cut short", REFUSED, _cut),
    case("another size", REFUSED, put("a/z.png", "png", lambda: pixels(9, 9, 3))),
    case("CMYK", WORKS, put("a/z.jpg", "jpeg", lambda: Image.new("CMYK", (8, 8), (9, 200, 40, 0)))),
    case("transparent", WORKS, put("a/z.png", "png", lambda: pixels(8, 8, 4))),
    case(
        "a palette",
        EITHER,
        put(
            "a/z.gif", "gif", lambda: Image.fromarray(pixels(8, 8, 3)).convert("P"), transparency=0
        ),
    ),
    case(
        "a film",
        EITHER,
        put("a/z.gif", "gif", lambda: pixels(8, 8), save_all=True, append_images=grey),
    ),
    case("16 bits", REFUSED, put("a/z.png", "png", lambda: np.zeros((8, 8), np.uint16))),
    case("floats", REFUSED, put("a/z.tiff", "tiff", lambda: np.zeros((8, 8), np.float32))),
    case("a folder called .png", EITHER, lambda folder: (folder / "a/z.png").mkdir()),
    case("a link to itself", EITHER, lambda folder: (folder / "a/loop").symlink_to(folder)),
    case("a link to nothing", EITHER, lambda folder: (folder / "a/l.png").symlink_to("no.png")),
    case("a bomb", REFUSED, put("a/z.png", "png", lambda: Image.new("1", (20000, 20000)))),
    case("a large one", EITHER, put("a/z.png", "png", lambda: Image.new("1", (12000, 12000)))),
    case("a negative size", REFUSED, lambda folder: None, more=", size = -1"),
    case("a label of HTML", WORKS, lambda folder: (folder / "a").rename(folder / "<b>x")),
    case("one label", REFUSED, _without("b")),
    case("nothing", REFUSED, _without("a", "b")),
    case("an image among labels", EITHER, put("z.png", "png", lambda: pixels(8, 8, 3))),
    case("a name that is no text", EITHER, _name_of_bytes),
    case(
        "a label that is no text",
        EITHER,
        lambda folder: (folder / "a").rename(f"{folder}/\udcff\udcfe"),
        command="run",
    ),
    *(
        case(f"{kind} changed, {k}", EITHER, fuzzed(kind, k))
        for kind in ("tiff", "gif", "bmp", "webp", "jpeg", "ppm", "png")
        for k in range(4)
    ),
]
