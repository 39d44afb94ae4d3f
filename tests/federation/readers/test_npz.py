import numpy as np
import pytest

from unalike.errors import DataError
from unalike.federation.readers import read_npz

X, Y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])


def test_x_and_y(tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=Y, who=[5, 5, 9, 9])
    examples = read_npz(tmp_path / "d.npz", client="who")
    assert examples.x.tolist() == X.tolist()
    assert examples.groups.tolist() == [0, 0, 1, 1]
    assert examples.test_x is None
    assert examples.name == "d"


@pytest.mark.parametrize(
    "keys",
    [
        ("x_train", "y_train", "x_test", "y_test"),
        ("X_train", "y_train", "X_test", "y_test"),
        ("train_images", "train_labels", "test_images", "test_labels"),
    ],
)
def test_with_a_test_set(tmp_path, keys):
    np.savez_compressed(tmp_path / "d.npz", **dict(zip(keys, (X, Y, X[:1], Y[:1]), strict=True)))
    examples = read_npz(tmp_path / "d.npz")
    assert len(examples) == 4
    assert examples.test_x.tolist() == X[:1].tolist()


def test_keys_that_are_not_understood_are_listed(tmp_path, one_sentence):
    np.savez(tmp_path / "d.npz", features=X, target=Y)
    with one_sentence(DataError, "x_train", "features, target"):
        read_npz(tmp_path / "d.npz")


def test_a_client_key_that_is_not_there(tmp_path, one_sentence):
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    with one_sentence(DataError, "'who'", "x, y"):
        read_npz(tmp_path / "d.npz", client="who")


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('a pickle was run')",))


def test_pickles_are_never_run(tmp_path, one_sentence):
    np.savez(tmp_path / "d.npz", x=np.array([Bomb()], object), y=Y)
    with one_sentence(DataError, "pickled"):
        read_npz(tmp_path / "d.npz")


def test_files_of_another_kind(tmp_path, one_sentence):
    (tmp_path / "text.npz").write_text("hello")
    np.save(tmp_path / "one.npy", X)
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 cut short")
    with one_sentence(DataError, "text.npz"):
        read_npz(tmp_path / "text.npz")
    with one_sentence(DataError, "single array", "savez"):
        read_npz(tmp_path / "one.npy")
    with one_sentence(DataError, "cut.npz"):
        read_npz(tmp_path / "cut.npz")
    with one_sentence(DataError, "none.npz"):
        read_npz(tmp_path / "none.npz")
