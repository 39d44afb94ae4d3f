"""Values that tables and archives hold in the wild: read as they are meant, or refused by name."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unalike.errors import DataError
from unalike.federation.readers import from_arrays, from_frame
from unalike.federation.readers.frames import read_table
from unalike.federation.readers.npz import load_npz, read_npz

HASH = 12345678901234567890


def table(path: Path, **columns: Callable[[int], object]) -> Path:
    """60 rows: a and b are features, y the label, c the client."""
    makes = {
        "a": lambda i: i * 0.5,
        "b": lambda i: i % 7,
        "y": lambda i: "pq"[i % 2],
        "c": lambda i: i % 3,
        **columns,
    }
    rows = [",".join(str(make(i)) for make in makes.values()) for i in range(60)]
    path.write_text("\n".join([",".join(makes), *rows]) + "\n")
    return path


class TestIdentifiers:
    """Hashes of 20 digits are names, and each is its own."""

    def test_clients(self, tmp_path: Path) -> None:
        read = read_table(table(tmp_path / "t.csv", c=lambda i: HASH + i % 3), "y", "c")
        assert read.group_names == tuple(str(HASH + i) for i in range(3))
        assert np.bincount(read.groups).tolist() == [20, 20, 20]

    def test_labels(self, tmp_path: Path) -> None:
        read = read_table(table(tmp_path / "t.csv", y=lambda i: HASH + i % 2), "y", "c")
        assert read.class_names == (str(HASH), str(HASH + 1))

    def test_arrays(self) -> None:
        ids = np.array([HASH + i % 3 for i in range(60)], np.uint64)
        read = from_arrays(np.zeros((60, 2)), np.arange(60) % 2, ids)
        assert read.group_names == tuple(str(HASH + i) for i in range(3))

    @pytest.mark.parametrize("values", [(1e300, 2e300), (2.0**53, 2.0**53 + 2), (-1e300, 1.0)])
    def test_numbers_that_cannot_be_told_apart(self, values: tuple[float, float]) -> None:
        clients = np.array([values[i % 2] for i in range(60)])
        with pytest.raises(DataError, match=r"too large to be distinguished .* give them as text"):
            from_arrays(np.zeros((60, 2)), np.arange(60) % 2, clients)


class TestSpellings:
    @pytest.mark.parametrize("text", ["Infinity", "-Infinity", "inf", "-inf", "+inf"])
    def test_infinity_is_named(self, text: str, tmp_path: Path) -> None:
        path = table(tmp_path / "t.csv", a=lambda i: text if i == 7 else i * 0.5)
        with pytest.raises(DataError, match=r"column 'a' is infinite in line 9 of"):
            read_table(path, "y", "c")

    @pytest.mark.parametrize("text", ["NAN", "-nan", "NaN", "nan", ""])
    def test_not_a_number_is_missing(self, text: str, tmp_path: Path) -> None:
        path = table(tmp_path / "t.csv", a=lambda i: text if i == 7 else i * 0.5)
        with pytest.raises(DataError, match=r"column 'a' is missing in 1 of 60 rows, .* line 9 of"):
            read_table(path, "y", "c")
        assert read_table(path, "y", "c", missing="impute").x.shape == (60, 2)

    def test_a_number_beyond_32_bits(self, tmp_path: Path) -> None:
        path = table(tmp_path / "t.csv", a=lambda i: "-1e39" if i == 7 else i * 0.5)
        with pytest.raises(DataError, match=r"column 'a' is -1e\+39 in line 9 .* scale the column"):
            read_table(path, "y", "c")

    def test_clients_keep_their_spelling(self, tmp_path: Path) -> None:
        path = table(tmp_path / "t.csv", c=lambda i: ("NAN", "north", "1e5")[i % 3])
        assert read_table(path, "y", "c").group_names == ("1e5", "NAN", "north")


class TestBytesAndLongDoubles:
    def test_labels_in_bytes(self) -> None:
        names = np.array([b"Z\xc3\xbcrich", b"Bern"])[np.arange(60) % 2]
        read = from_arrays(np.zeros((60, 2)), names)
        assert read.class_names == ("Bern", "Zürich")

    def test_labels_that_are_no_text(self, tmp_path: Path) -> None:
        names = np.array([b"\xff\xfe", b"Bern"])[np.arange(60) % 2]
        with pytest.raises(DataError, match=r"labels must be text in UTF-8, got b'\\xff\\xfe' in"):
            from_arrays(np.zeros((60, 2)), names)
        frame = pl.DataFrame({"a": range(60), "y": names.tolist()})
        frame.write_parquet(tmp_path / "t.parquet")
        with pytest.raises(DataError, match="labels must be text in UTF-8"):
            read_table(tmp_path / "t.parquet", "y")

    def test_long_doubles(self) -> None:
        x = np.arange(120, dtype=np.longdouble).reshape(60, 2)
        assert from_arrays(x, np.arange(60) % 2).x[-1].tolist() == [118, 119]


class TestRoles:
    def test_two_columns_of_one_name(self, tmp_path: Path) -> None:
        path = table(tmp_path / "t.csv")
        path.write_text(path.read_text().replace("a,b,y,c", "c,b,y,c"))
        with pytest.raises(DataError, match="two columns are called 'c'; rename one"):
            read_table(path, "y", "c")

    def test_the_label_cannot_be_dropped(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="'y' is the label, so it cannot be dropped"):
            read_table(table(tmp_path / "t.csv"), "y", "c", drop=["y"])

    def test_the_label_is_not_the_client(self) -> None:
        frame = pl.DataFrame({"a": range(60), "y": [i % 2 for i in range(60)]})
        with pytest.raises(DataError, match="'y' cannot be both the label and the client"):
            from_frame(frame, "y", "y")


def archive(compressed: bool = True) -> bytes:
    raw = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(raw, x=np.random.default_rng(0).normal(size=(60, 40)), y=np.arange(60) % 3)
    return raw.getvalue()


def lying(header: str) -> bytes:
    """An archive whose array claims something."""
    text = header.encode()
    text += b" " * (64 - (10 + len(text) + 1) % 64) + b"\n"
    npy = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as z:
        z.writestr("x.npy", npy)
        z.writestr("y.npy", npy)
    return raw.getvalue()


def flipped(raw: bytes, *places: tuple[int, int]) -> bytes:
    out = bytearray(raw)
    for at, bits in places:
        out[at] ^= bits
    return bytes(out)


def encrypted() -> bytes:
    raw = archive()
    return flipped(raw, (6, 1), (raw.index(b"PK\x01\x02") + 8, 1))


def unknown_method() -> bytes:
    raw = archive()
    return flipped(raw, (8, 8 ^ 99), (raw.index(b"PK\x01\x02") + 10, 8 ^ 99))


CLAIM = "{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, 4), }}"
DAMAGED = {
    "a damaged stream": lambda: flipped(archive(), (archive().index(b"x.npy") + 25, 0xFF)),
    "an encrypted member": encrypted,
    "a method nobody knows": unknown_method,
    "10 billion terabytes": lambda: lying(CLAIM.format(10**13)),
    "more than a number holds": lambda: lying(CLAIM.format(10**30)),
    "a header that is no header": lambda: lying("{'descr': ("),
    "a header of parentheses": lambda: lying("(" * 9000),
    "a shape of text": lambda: lying(CLAIM.format("'a'")),
    "nothing": lambda: b"",
    "half": lambda: archive()[:400],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_archives(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(DAMAGED[name]())
    with pytest.raises(DataError) as error:
        read_npz(tmp_path / "a.npz")
    assert "a.npz" in str(error.value)


@pytest.mark.parametrize("compressed", [True, False])
def test_any_flipped_bit_is_refused_or_read(compressed: bool, tmp_path: Path) -> None:
    """The checksums of the archive find what changes a number."""
    raw, path = archive(compressed), tmp_path / "a.npz"
    path.write_bytes(raw)
    known, draw = load_npz(path), np.random.default_rng(1)
    for _ in range(300):
        path.write_bytes(flipped(raw, (int(draw.integers(len(raw))), 1 << int(draw.integers(8)))))
        try:
            found = load_npz(path)
        except DataError:
            continue
        for key in known.keys() & found.keys():
            np.testing.assert_array_equal(known[key], found[key])
