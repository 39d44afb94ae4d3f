"""Named datasets from the hub, with the columns they have there and a few rows instead of all."""

import string

import numpy as np
import pytest
from PIL import Image

from unalike.errors import DataError
from unalike.federation.datasets import base
from unalike.federation.datasets.adult import Adult
from unalike.federation.datasets.cifar10 import Cifar10
from unalike.federation.datasets.cifar100 import Cifar100
from unalike.federation.datasets.fashion_mnist import FashionMnist
from unalike.federation.datasets.femnist import Femnist
from unalike.federation.datasets.hub import Hub
from unalike.federation.datasets.mnist import Mnist
from unalike.federation.datasets.mqp import Mqp
from unalike.federation.datasets.shakespeare import Shakespeare

datasets = pytest.importorskip("datasets", reason="the extra 'hub' is not installed")


@pytest.fixture
def on_hub(monkeypatch):
    """Puts rows on a make-believe hub under one name."""

    def put(name, columns, kinds=None):
        rows = datasets.Dataset.from_dict(columns, features=kinds and datasets.Features(kinds))

        def load_splits(asked):
            assert asked == name
            return {"train": rows, "test": rows}

        monkeypatch.setattr(base, "load_splits", load_splits)

    return put


def pictures(side, channels, values):
    shape = (side, side, channels) if channels > 1 else (side, side)
    return [Image.fromarray(np.full(shape, value, np.uint8)) for value in values]


@pytest.mark.parametrize(
    ("cls", "name"), [(Mnist, "ylecun/mnist"), (FashionMnist, "zalando-datasets/fashion_mnist")]
)
def test_mnist_and_fashion_mnist(on_hub, cls, name):
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=10)}
    on_hub(name, {"image": pictures(28, 1, [0, 255]), "label": [7, 3]}, kinds)
    examples = cls().load()
    assert examples.x.shape == (2, 1, 28, 28)
    assert (examples.y.tolist(), examples.classes) == ([7, 3], 10)
    assert examples.test_x.shape == examples.x.shape


def test_the_writers_of_the_hub_s_mnist_are_not_known(on_hub, tmp_path, monkeypatch, one_sentence):
    np.savez(tmp_path / "mnist_writers.npz", writer_train=[1, 2])
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    with one_sentence(DataError, "mnist.npz"):
        Mnist(clients="writer").load()


def test_cifar(on_hub):
    images = pictures(32, 3, [51, 255])
    kinds = {"img": datasets.Image(), "label": datasets.ClassLabel(num_classes=10)}
    on_hub("uoft-cs/cifar10", {"img": images, "label": [9, 0]}, kinds)
    assert Cifar10().load().y.tolist() == [9, 0]
    kinds = {
        "img": datasets.Image(),
        "fine_label": datasets.ClassLabel(num_classes=100),
        "coarse_label": datasets.ClassLabel(num_classes=20),
    }
    columns = {"img": images, "fine_label": [99, 1], "coarse_label": [19, 2]}
    on_hub("uoft-cs/cifar100", columns, kinds)
    assert Cifar100(labels="coarse").load().classes == 20
    assert Cifar100().load().y.tolist() == [99, 1]


@pytest.mark.parametrize("channels", [1, 3])
def test_femnist(on_hub, channels):
    names = list(string.digits + string.ascii_uppercase + string.ascii_lowercase)
    kinds = {
        "image": datasets.Image(),
        "writer_id": datasets.Value("string"),
        "hsf_id": datasets.Value("int64"),
        "character": datasets.ClassLabel(names=names),
    }
    columns = {
        "image": pictures(28, channels, [0, 255]),
        "writer_id": ["f0001_41", "f0000_14"],
        "hsf_id": [0, 0],
        "character": [53, 0],
    }
    on_hub("flwrlabs/femnist", columns, kinds)
    examples = Femnist().load()
    assert examples.x.shape == (2, 1, 28, 28)
    assert examples.group_names == ("f0000_14", "f0001_41")
    assert examples.class_names[examples.y[0]] == "r"


def test_shakespeare(on_hub):
    columns = {"character_id": ["B", "A"], "x": ["a" * 80, "b" * 80], "y": ["c", "d"]}
    on_hub("flwrlabs/shakespeare", columns)
    examples = Shakespeare().load()
    assert [examples.class_names[y] for y in examples.y] == ["c", "d"]
    assert examples.groups.tolist() == [1, 0]


def test_mqp(on_hub):
    columns = {
        "dr_id": [1, 2],
        "question_1": ["my head aches", "tea"],
        "question_2": ["my head aches", "gin"],
    }
    on_hub("curaihealth/medical_questions_pairs", {**columns, "label": [1, 0]})
    examples = Mqp(buckets=32).load()
    assert examples.x.shape == (2, 64)
    assert examples.x[0, :32].abs().max() == 0
    assert examples.x[0, 32:].sum() == pytest.approx(1)


def test_adult(on_hub):
    names = (
        "age workclass fnlwgt education education.num marital.status occupation relationship race "
        "sex capital.gain capital.loss hours.per.week native.country income"
    )
    row = [90, "?", 77053, "HS-grad", 9, "Widowed", "Clerk", "Not", "White", "F", 0, 4356, 40, "US"]
    columns = {name: [value] * 2 for name, value in zip(names.split(), row, strict=False)}
    on_hub(
        "scikit-learn/adult-census-income",
        {**columns, "workclass": ["?", "Private"], "income": ["<=50K", ">50K"]},
    )
    examples = Adult(normalise="none").load()
    assert examples.y.tolist() == [0, 1]
    assert examples.test_x is None
    assert examples.x[:, 1:3].tolist() == [[1, 0], [0, 1]]


def test_any_dataset_by_its_name(tmp_path):
    rows = {"a": [1.0, 3.0], "b": ["x", "y"], "target": [0, 1], "who": ["q", "p"]}
    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path))
    examples = Hub(repository=str(tmp_path), label="target", client="who").load()
    assert examples.x.tolist() == [[1, 1, 0], [3, 0, 1]]
    assert examples.pending.scale == "pooled"
    assert examples.group_names == ("p", "q")
