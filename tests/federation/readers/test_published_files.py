"""The formats MNIST, CIFAR and LEAF were published in."""

import gzip
import json

import numpy as np

from unalike.errors import DataError
from unalike.federation.readers.cifar import read_binary, read_delta
from unalike.federation.readers.idx import read_idx, read_mnist_files
from unalike.federation.readers.leaf import leaf_files, read_leaf

RNG = np.random.default_rng(0)


def idx(array: np.ndarray) -> bytes:
    header = b"\0\0\x08" + bytes([array.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def test_idx_files(tmp_path):
    images = RNG.integers(0, 256, (3, 5, 4), np.uint8)
    (tmp_path / "a").write_bytes(idx(images))
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(images)))
    assert np.array_equal(read_idx(tmp_path / "a"), images)
    assert np.array_equal(read_idx(tmp_path / "a.gz"), images)


def test_the_four_files_of_mnist_in_either_spelling(tmp_path):
    images, labels = RNG.integers(0, 256, (3, 5, 4), np.uint8), np.array([2, 0, 1], np.uint8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "train-labels.idx1-ubyte").write_bytes(idx(labels))
    (tmp_path / "t10k-images.idx3-ubyte").write_bytes(idx(images[:1]))
    assert read_mnist_files(tmp_path) is None
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(labels[:1]))
    (x, y), (test_x, test_y) = read_mnist_files(tmp_path)
    assert np.array_equal(x, images)
    assert y.tolist() == [2, 0, 1]
    assert (len(test_x), test_y.tolist()) == (1, [2])


def test_bad_idx_files(tmp_path, one_sentence):
    whole = idx(np.zeros((2, 2), np.uint8))
    for name, content in (("short", whole[:-1]), ("other", b"hello"), ("bad.gz", b"no gzip")):
        (tmp_path / name).write_bytes(content)
        with one_sentence(DataError, name):
            read_idx(tmp_path / name)


def test_cifar_binary_records(tmp_path):
    pixels = RNG.integers(0, 256, (4, 3, 32, 32), np.uint8)
    labels = np.array([[3, 30], [1, 10], [2, 20], [0, 5]], np.uint8)
    rows = np.concatenate([labels, pixels.reshape(4, -1)], axis=1)
    (tmp_path / "a.bin").write_bytes(rows[:3].tobytes())
    (tmp_path / "b.bin").write_bytes(rows[3:].tobytes())
    x, y = read_binary([tmp_path / "a.bin", tmp_path / "b.bin"], 2)
    assert np.array_equal(x, pixels)
    assert np.array_equal(y, labels)


def test_bad_cifar_files(tmp_path, one_sentence):
    (tmp_path / "a.bin").write_bytes(bytes(3000))
    np.savez(tmp_path / "b.npz", x=[1])
    with one_sentence(DataError, "a.bin", "3073"):
        read_binary([tmp_path / "a.bin"], 1)
    with one_sentence(DataError, "b.npz", "d and y"):
        read_delta(tmp_path / "b.npz")


def test_delta_coding_is_undone_modulo_256(tmp_path):
    red, green, blue = RNG.integers(0, 256, (3, 2, 32, 32), np.uint8)
    planes = np.stack([green, red - green, blue - green])
    by_row = np.diff(planes, axis=2, prepend=np.uint8(0))
    np.savez(tmp_path / "d.npz", d=np.diff(by_row, axis=3, prepend=np.uint8(0)), y=[0, 1])
    x, y = read_delta(tmp_path / "d.npz")
    assert x.dtype == np.uint8
    assert np.array_equal(x, np.stack([red, green, blue], axis=1))
    assert y.tolist() == [0, 1]


def leaf(users: dict[str, tuple[list, list]]) -> str:
    return json.dumps({"user_data": {u: {"x": x, "y": y} for u, (x, y) in users.items()}})


def test_leaf_train_and_test_rows_are_joined(tmp_path):
    for part, users in (
        ("train", {"ann": ([[0.1], [0.2]], [1, 0]), "bob": ([[0.3]], [1])}),
        ("test", {"ann": ([[0.4]], [0])}),
    ):
        (tmp_path / "data" / part).mkdir(parents=True)
        (tmp_path / "data" / part / "all.json").write_text(leaf(users))
    rows = read_leaf(leaf_files(tmp_path))
    assert rows.x[:, 0].tolist() == [0.1, 0.2, 0.3, 0.4]
    assert rows.y.tolist() == [1, 0, 1, 0]
    assert rows.user.tolist() == ["ann", "ann", "bob", "ann"]


def test_bad_leaf_files(tmp_path, one_sentence):
    path = tmp_path / "a.json"
    for content, word in (
        ("{}", "user_data"),
        ("not json", "user_data"),
        ('{"user_data": {"ann": {"x": [1]}}}', "user_data"),
        ('{"user_data": {"ann": {"x": [1], "y": []}}}', "'ann'"),
    ):
        path.write_text(content)
        with one_sentence(DataError, "a.json", word):
            read_leaf(leaf_files(tmp_path))
