"""NPZ archives: arrays of every kind, damaged, lying, and with code inside."""

import io
import os
import pickle
import random
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from breaking.corpus import EITHER, REFUSED, WORKS, Case, Content
from breaking.server import Limits

KIND = "archive"
X = np.random.default_rng(0).normal(size=(60, 4))
Y = np.arange(60) % 3
ROOMY = Limits(seconds=60, memory=8 << 30)


class Evil:
    """What runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("unpickled",)


def unharmed(place: Path, *_: object) -> None:
    assert not (place / "unpickled").exists()


def saved(packed: bool = False, **arrays: Any) -> bytes:
    raw = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(raw, **arrays)
    return raw.getvalue()


def case(
    name: str,
    want: str,
    content: Content,
    cause: str = "",
    client: bool = False,
    command: str = "skew",
    limits: Limits = ROOMY,
) -> Case:
    owner = ', client = "c"' if client else ""
    parted = '"natural"' if client else '{name = "iid", clients = 3}'
    text = (
        f'rounds = 2\ndata = {{name = "files", path = "d.npz"{owner}}}\n'
        f'partition = {parted}\nmodel = "logistic"\n'
    )
    files = {"c.toml": text, "d.npz": content}
    return Case(KIND, name, want, [command, "c.toml"], files, cause, check=unharmed, limits=limits)


def _x(change: Callable[[np.ndarray], np.ndarray]) -> bytes:
    with np.errstate(over="ignore"):
        return saved(x=change(X), y=Y)


def twice() -> bytes:
    """Two arrays of one name."""
    made = io.BytesIO(saved(x=X, y=Y))
    with zipfile.ZipFile(made, "a") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr("x.npy", archive.read("y.npy"))
    return made.getvalue()


CASES = [
    case("plain", WORKS, saved(x=X, y=Y), command="run"),
    case("an array twice", REFUSED, twice, "two of a name"),
    case("clients of halves", REFUSED, saved(x=X, y=Y, c=Y + 0.5), "wording", client=True),
    case("labels of objects", REFUSED, saved(x=X, y=np.array([{"a": 1}] * 60, dtype=object))),
    case("code as objects", REFUSED, saved(x=np.array([Evil()] * 3, dtype=object), y=Y[:3])),
    case("code as an archive", REFUSED, pickle.dumps(Evil())),
    case("fewer labels", REFUSED, saved(x=X, y=Y[:50])),
    case("labels one-hot", REFUSED, saved(x=X, y=np.eye(3)[Y])),
    case("a number", REFUSED, saved(x=np.array(3.0), y=np.array(1))),
    case("a vector", REFUSED, saved(x=X[:, 0], y=Y)),
    case("not a number", REFUSED, _x(lambda x: np.where(x > 2, np.nan, x))),
    case("infinite", REFUSED, _x(lambda x: np.where(x > 2, np.inf, x))),
    case("too large for a float", REFUSED, _x(lambda x: x * 1e39)),
    case("complex", REFUSED, _x(lambda x: x + 1j)),
    case("text", REFUSED, _x(lambda x: x.astype(str))),
    case("halves", WORKS, _x(lambda x: x.astype("f2")), command="run"),
    case("halves of infinity", REFUSED, _x(lambda x: (x * 1e6).astype("f2"))),
    case("long doubles", EITHER, _x(lambda x: x.astype("g")), "odd bytes"),
    case("64 bits without a sign", EITHER, _x(lambda x: (np.abs(x) * 1e18).astype("u8"))),
    case("truths", EITHER, _x(lambda x: x > 0)),
    case("the other byte order", WORKS, _x(lambda x: x.astype(">f8"))),
    case("the other order of axes", WORKS, _x(np.asfortranarray)),
    case("no rows", REFUSED, saved(x=np.zeros((0, 4)), y=np.zeros(0, int))),
    case("no columns", REFUSED, saved(x=np.zeros((60, 0)), y=Y)),
    case(
        "labels of dates",
        REFUSED,
        saved(x=X, y=np.array(["2020-01-01", "2021-01-01"] * 30, dtype="M8[D]")),
    ),
    case("labels of bytes", REFUSED, saved(x=X, y=np.array([b"\xff", b"a"] * 30)), "odd bytes"),
    case("labels of records", REFUSED, saved(x=X, y=np.zeros(60, dtype=[("a", "i4")]))),
    case("labels of nothing", REFUSED, saved(x=X, y=np.zeros(60, dtype="V4"))),
    case("records", REFUSED, saved(x=np.zeros(60, dtype=[("a", "f4"), ("b", "f4")]), y=Y)),
    case("labels beyond 63 bits", EITHER, saved(x=X, y=Y.astype("u8") + np.uint64(2**63))),
    case("labels of 1e300", REFUSED, saved(x=X, y=np.array([1e300, 2e300, 3e300] * 20))),
    case("labels not a number", REFUSED, saved(x=X, y=np.where(Y == 0, np.nan, Y))),
    case("no arrays", REFUSED, saved()),
    case("labels alone", REFUSED, saved(y=Y)),
    case("five axes", EITHER, saved(x=np.zeros((60, 2, 2, 2, 2)), y=Y)),
    case("no clients", REFUSED, saved(x=X, y=Y), client=True),
    case(
        "clients of 1e300",
        REFUSED,
        saved(x=X, y=Y, c=np.array([1e300, 2e300, 3e300] * 20)),
        "merged clients",
        client=True,
    ),
    case(
        "clients not a number",
        REFUSED,
        saved(x=X, y=Y, c=np.array([1, 2, np.nan] * 20)),
        client=True,
    ),
    case("fewer clients", REFUSED, saved(x=X, y=Y, c=np.arange(10)), client=True),
]

PACKED = saved(packed=True, x=X, y=Y)
WIDE = saved(packed=True, x=np.zeros((60, 400)), y=Y)
AT = WIDE.index(b"x.npy") + 5  # where the first array's own bytes begin
CENTRAL = WIDE.index(b"PK\x01\x02")


def spoiled(seed: int, first: int, beyond: int) -> bytes:
    """Two bytes changed, between the first and the last that may be."""
    draw, data = random.Random(seed), bytearray(PACKED)
    for _ in range(2):
        data[draw.randrange(first, len(data) - beyond)] ^= draw.randrange(1, 256)
    return bytes(data)


def changed(*places: tuple[int, int], by: Callable[[int, int], int] = lambda a, b: a ^ b) -> bytes:
    data = bytearray(WIDE)
    for at, value in places:
        data[at] = by(data[at], value)
    return bytes(data)


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """The head of an array that claims to be of some shape."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (64 - (len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zipped(x: bytes, y: bytes = header((60,))) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", x)
        archive.writestr("y.npy", y)
    return raw.getvalue()


def _npy() -> bytes:
    raw = io.BytesIO()
    np.save(raw, X)
    return raw.getvalue()


DAMAGED = "damaged archive"
CASES += [
    *(case(f"packed bytes changed, {k}", EITHER, spoiled(k, 40, 120), DAMAGED) for k in range(12)),
    *(case(f"any bytes changed, {k}", EITHER, spoiled(99 + k, 0, 0)) for k in range(8)),
    case("cut in half", REFUSED, PACKED[: len(PACKED) // 2]),
    case("an empty file", REFUSED, b""),
    case("one array, not an archive", REFUSED, _npy()),
    case("10^13 rows claimed", REFUSED, zipped(header((10**13, 4))), DAMAGED),
    case("10^30 rows claimed", REFUSED, zipped(header((10**30, 4))), DAMAGED),
    case("-5 rows claimed", REFUSED, zipped(header((-5, 4)))),
    case("an unknown type", REFUSED, zipped(header((5, 4), "<q99"))),
    case("objects claimed", REFUSED, zipped(header((5, 4), "|O"))),
    case("a head of brackets", REFUSED, zipped(b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16), DAMAGED),
    case(
        "a head of 9,000 brackets",
        REFUSED,
        zipped(b"\x93NUMPY\x02\x00" + struct.pack("<I", 9000) + b"(" * 9000),
        DAMAGED,
    ),
    case("no arrays inside", REFUSED, zipped(b"hello", b"x")),
    case(
        "a bomb of 4 GB",
        REFUSED,
        lambda: zipped(header((2**26, 4)) + bytes(2**28)),
        limits=Limits(seconds=60, memory=6 << 30),
    ),
    case("packed stream broken", REFUSED, changed((AT + 20, 0xFF), (AT + 21, 0xFF)), DAMAGED),
    *(
        case(f"packed stream broken at {k}", EITHER, changed((AT + k, 0x77)), DAMAGED)
        for k in (22, 24, 26, 30, 34)
    ),
    case(
        "encrypted",
        REFUSED,
        changed((6, 1), (CENTRAL + 8, 1), by=lambda a, b: a | b),
        DAMAGED,
    ),
    case(
        "packed in an unknown way",
        REFUSED,
        changed((8, 99), (CENTRAL + 10, 99), by=lambda a, b: b),
        DAMAGED,
    ),
]
