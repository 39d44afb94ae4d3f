"""Published layouts of files, written small; and what is said when there are none."""

import gzip
import json

import numpy as np
import pytest

from unalike.errors import ConfigError, DataError
from unalike.federation.build import federate
from unalike.federation.datasets import DATASETS
from unalike.federation.datasets.adult import Adult
from unalike.federation.datasets.berka import AAGGFF, Berka
from unalike.federation.datasets.cifar10 import Cifar10
from unalike.federation.datasets.cifar100 import Cifar100
from unalike.federation.datasets.fashion_mnist import FashionMnist
from unalike.federation.datasets.femnist import Femnist
from unalike.federation.datasets.heart import Heart
from unalike.federation.datasets.medmnist import MedMnist
from unalike.federation.datasets.mnist import Mnist
from unalike.federation.datasets.shakespeare import Shakespeare
from unalike.federation.partition.natural import Natural
from unalike.federation.readers import hub as hub_reader

RNG = np.random.default_rng(0)


def write_idx(folder, images, labels):
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        for what, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = b"\0\0\x08" + bytes([array.ndim])
            header += b"".join(n.to_bytes(4, "big") for n in array.shape)
            path = folder / f"{part}-{what}-ubyte.gz"
            path.write_bytes(gzip.compress(header + array.tobytes()))


def test_idx_files_are_told_apart_by_their_folders(tmp_path, monkeypatch, one_sentence):
    labels = np.array([0, 9, 5], np.uint8)
    write_idx(tmp_path / "MNIST" / "raw", np.full((3, 28, 28), 255, np.uint8), labels)
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    assert Mnist().load().x.min() == 1
    monkeypatch.setattr(hub_reader, "_resolves", lambda: False)
    with one_sentence(DataError, "fashion_mnist"):
        FashionMnist().load()
    write_idx(tmp_path / "fashion-mnist", np.zeros((3, 28, 28), np.uint8), labels)
    assert FashionMnist().load().x.max() == 0
    assert FashionMnist(folder=str(tmp_path / "fashion-mnist")).load().y.tolist() == [0, 9, 5]


def test_writers_need_their_file(tmp_path, one_sentence):
    write_idx(tmp_path, np.zeros((3, 28, 28), np.uint8), np.array([0, 9, 5], np.uint8))
    with one_sentence(DataError, "mnist_writers.npz"):
        Mnist(folder=str(tmp_path), clients="writer").load()
    np.savez(tmp_path / "mnist_writers.npz", writer_train=[7, 7, 5])
    assert Mnist(folder=str(tmp_path), clients="writer").load().group_names == ("5", "7")


def records(labels):
    labels = np.array(labels, np.uint8).reshape(len(labels), -1)
    pixels = RNG.integers(0, 256, (len(labels), 3072), np.uint8)
    return np.concatenate([labels, pixels], axis=1)


def test_cifar10_binary_version(tmp_path):
    batches = [records([n, n + 1]) for n in range(6)]
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for number, batch in enumerate(batches, 1):
        name = f"data_batch_{number}" if number < 6 else "test_batch"
        (folder / f"{name}.bin").write_bytes(batch.tobytes())
    examples = Cifar10(folder=str(tmp_path), size=28).load()
    assert examples.y.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert examples.test_y.tolist() == [5, 6]
    assert examples.x.shape == (10, 3, 28, 28)
    plain = Cifar10(folder=str(tmp_path)).load().x
    assert (plain[0, 1, 2, 3] * 255).round() == batches[0][0, 1 + 1024 + 2 * 32 + 3]


@pytest.mark.parametrize(("labels", "expected"), [("fine", [99, 5]), ("coarse", [3, 19])])
def test_cifar100_binary_version(tmp_path, labels, expected):
    for name in ("train", "test"):
        (tmp_path / f"{name}.bin").write_bytes(records([[3, 99], [19, 5]]).tobytes())
    examples = Cifar100(folder=str(tmp_path), labels=labels).load()
    assert examples.y.tolist() == expected
    assert examples.classes == (100 if labels == "fine" else 20)


def test_pickled_cifar_is_not_read(tmp_path, one_sentence):
    for folder, name in (("cifar-10-batches-py", "data_batch_1"), ("cifar-100-python", "train")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(b"\x80\x04.")
    with one_sentence(DataError, "pickled", "cifar-10-binary.tar.gz"):
        Cifar10(folder=str(tmp_path)).load()
    with one_sentence(DataError, "pickled", "cifar-100-binary.tar.gz"):
        Cifar100(folder=str(tmp_path)).load()


def write_leaf(folder, users):
    folder.mkdir(parents=True)
    data = {user: {"x": x, "y": y} for user, (x, y) in users.items()}
    (folder / "all.json").write_text(json.dumps({"user_data": data}))


def test_femnist_from_leaf_and_from_npz(tmp_path):
    rows = RNG.random((3, 784)).round(3)
    write_leaf(
        tmp_path / "femnist" / "data" / "train",
        {"w2": (rows[:2].tolist(), [61, 10]), "w1": (rows[2:].tolist(), [0])},
    )
    examples = Femnist(folder=str(tmp_path)).load()
    assert examples.x.shape == (3, 1, 28, 28)
    assert examples.x[1, 0, 1, 2] == pytest.approx(rows[1, 30])
    assert [examples.class_names[y] for y in examples.y] == ["z", "A", "0"]
    assert examples.groups.tolist() == [1, 1, 0]
    assert len(Femnist(folder=str(tmp_path), writers=1).load()) == 1
    other = tmp_path / "other"
    other.mkdir()
    np.savez(
        other / "femnist.npz", x=np.zeros((3, 28, 28), np.uint8), y=[0, 1, 2], writer=[1, 1, 2]
    )
    assert Femnist(folder=str(other)).load().classes == 62


def test_shakespeare_from_leaf(tmp_path, one_sentence):
    window = "To be, or not to be, that is the question: whether 'tis nobler in the mind to su"
    write_leaf(
        tmp_path / "shakespeare" / "data" / "train", {"H": ([window, window[::-1]], ["f", "$"])}
    )
    examples = Shakespeare(folder=str(tmp_path)).load()
    assert "".join(examples.class_names[i] for i in examples.x[0]) == window
    assert [examples.class_names[y] for y in examples.y] == ["f", " "]
    with one_sentence(DataError, "stride", "LEAF"):
        Shakespeare(folder=str(tmp_path), stride=2).load()


def test_adult_from_uci(tmp_path):
    row = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, "
    row += "White, Male, 2174, 0, 40, {}, {}"
    (tmp_path / "adult.data").write_text(
        row.format("United-States", "<=50K") + "\n" + row.format("?", ">50K") + "\n\n"
    )
    (tmp_path / "adult.test").write_text(
        "|1x3 Cross validator\n" + row.format("Cuba", ">50K.") + "\n"
    )
    examples = Adult(folder=str(tmp_path), normalise="none").load()
    assert examples.y.tolist() == [0, 1]
    assert examples.test_y.tolist() == [1]
    # Levels of native_country come last: (missing), Cuba, United-States.
    assert examples.x[:, -3:].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert examples.test_x[:, -3:].tolist() == [[0, 1, 0]]


def test_adult_client_must_be_a_column(tmp_path, one_sentence):
    row = "39, a, 7, b, 13, c, d, e, White, Male, 2174, 0, 40, f, <=50K\n"
    for name in ("adult.data", "adult.test"):
        (tmp_path / name).write_text(row)
    with one_sentence(ConfigError, "'educaton'", "did you mean 'education'"):
        Adult(folder=str(tmp_path), clients="educaton").load()


def test_adults_race_is_protected_where_it_has_two_values(tmp_path, one_sentence):
    row = "39, a, 7, b, 13, c, d, e, {}, {}, 2174, 0, 40, f, {}\n"
    races = ["White", "Black", "Amer-Indian-Eskimo", "Asian-Pac-Islander", "Other"]
    rows = "".join(row.format(r, s, "<=50K") for r in races for s in ("Male", "Female"))
    for name in ("adult.data", "adult.test"):
        (tmp_path / name).write_text(rows + row.format("White", "Male", ">50K"))
    with one_sentence(DataError, "race", "data.protocol = 'lg-fedavg'", "sex"):
        Adult(folder=str(tmp_path), protected=["race"]).load()
    kept = Adult(folder=str(tmp_path), protected=["race", "sex"], protocol="lg-fedavg").load()
    assert (len(kept), kept.protected) == (5, ("race", "sex"))
    assert Adult(folder=str(tmp_path), protected=["sex"]).load().protected == ("sex",)


def test_heart_from_uci(tmp_path):
    line = "63.0,1.0,{},145.0,{},1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,{}\n"
    for number, hospital in enumerate(("cleveland", "hungarian", "switzerland", "va")):
        path = tmp_path / f"processed.{hospital}.data"
        path.write_text(line.format(4.0, "?", number) + line.format(1.0, 200 + number, 0))
    examples = Heart(folder=str(tmp_path), normalise="none").load()
    assert examples.y.tolist() == [0, 0, 1, 0, 1, 0, 1, 0]
    assert examples.x[:2, 3].isnan().tolist() == [True, False]
    filled = federate(examples, Natural(), validation=0, test=0).examples.x
    assert filled[0, 3] == 201.5
    assert examples.x[:2, 8:12].tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]


def write_medmnist(path, shape, labels=1):
    arrays = {}
    for part, rows in (("train", 4), ("val", 2), ("test", 3)):
        arrays[f"{part}_images"] = RNG.integers(0, 256, (rows, *shape), np.uint8)
        arrays[f"{part}_labels"] = np.arange(rows * labels).reshape(rows, labels) % 2
    np.savez(path, **arrays)


@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 3)])
def test_medmnist_joins_training_and_validation(tmp_path, shape):
    write_medmnist(tmp_path / "organcmnist.npz", shape)
    examples = MedMnist(folder=str(tmp_path), flag="organcmnist").load()
    assert examples.x.shape == (6, 3 if len(shape) == 3 else 1, 28, 28)
    assert len(examples.test_x) == 3
    assert examples.name == "organcmnist"


def test_medmnist_sets_that_do_not_fit(tmp_path, one_sentence):
    write_medmnist(tmp_path / "chestmnist.npz", (28, 28), labels=14)
    write_medmnist(tmp_path / "organmnist3d.npz", (28, 28, 28))
    np.savez(tmp_path / "odd.npz", x=[1])
    for flag, word in (("chestmnist", "several labels"), ("organmnist3d", "volumes"), ("odd", "x")):
        with one_sentence(DataError, flag, word):
            MedMnist(folder=str(tmp_path), flag=flag).load()


def test_berka_with_the_inputs_of_aaggff(tmp_path):
    """Figures of two years are averaged, a missing one left out; statements are two columns."""
    import polars as pl

    one, two = ("unemployment_95", "unemployment_96"), ("crimes_95", "crimes_96")
    names = [n for n in AAGGFF if isinstance(n, str)]
    table = {n: [float(i), 2.0 * i, 3.0 * i] for i, n in enumerate(names, 1)}
    table |= {one[0]: [1.0, None, 5.0], one[1]: [3.0, 4.0, 7.0]}
    table |= {two[0]: [10.0, 20.0, None], two[1]: [30.0, 40.0, 50.0]}
    table |= {"default": [0, 1, 0], "region": ["a", "b", "b"]}
    table["frequency"] = ["POPLATEK TYDNE", "POPLATEK PO OBRATU", "POPLATEK MESICNE"]
    pl.DataFrame(table).write_parquet(tmp_path / "loan_features.parquet")
    x = Berka(folder=str(tmp_path), inputs="aaggff").load().x
    assert x.shape == (3, 15)
    assert x[:, 0].tolist() == [1, 2, 3]
    assert x[:, 7].tolist() == [2, 4, 6]
    assert x[:, 8].tolist() == [20, 30, 50]
    assert x[:, 13:].tolist() == [[1, 0], [0, 1], [0, 0]]


STORED = sorted(set(DATASETS) - {"digits", "breast_cancer", "diabetes", "files", "hub"})


@pytest.mark.parametrize("name", STORED)
def test_absent_data_say_what_to_put_where(name, tmp_path, monkeypatch, one_sentence):
    monkeypatch.setattr(hub_reader, "_resolves", lambda: False)
    with one_sentence(DataError, name, "UNALIKE_DATA", "'folder'"):
        DATASETS[name]().load()
    with one_sentence(DataError, name, str(tmp_path)):
        DATASETS[name](folder=str(tmp_path)).load()
    with one_sentence(DataError, "nowhere", "is not a folder"):
        DATASETS[name](folder="nowhere").load()


def test_files_with_other_columns(tmp_path, one_sentence):
    import polars as pl

    for name in ("adult", "heart_disease", "loan_features", "mqp", "shakespeare_plays"):
        pl.DataFrame({"a": [1]}).write_parquet(tmp_path / f"{name}.parquet")
    for cls in (Adult, Heart, Berka, DATASETS["mqp"], Shakespeare):
        with one_sentence(DataError, "column"):
            cls(folder=str(tmp_path)).load()
    np.savez(tmp_path / "mnist.npz", a=[1])
    np.savez(tmp_path / "femnist.npz", a=[1])
    with one_sentence(DataError, "x_train"):
        Mnist(folder=str(tmp_path)).load()
    with one_sentence(DataError, "writer"):
        Femnist(folder=str(tmp_path)).load()
