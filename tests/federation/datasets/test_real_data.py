"""Every dataset whose real files lie beside the checkout, against its published counts."""

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from unalike.federation.build import federate
from unalike.federation.data import TEST, TRAIN
from unalike.federation.datasets.adult import Adult
from unalike.federation.datasets.berka import Berka
from unalike.federation.datasets.cifar10 import Cifar10
from unalike.federation.datasets.fashion_mnist import FashionMnist
from unalike.federation.datasets.heart import Heart
from unalike.federation.datasets.mnist import Mnist
from unalike.federation.datasets.mqp import Mqp
from unalike.federation.datasets.shakespeare import VOCABULARIES, Shakespeare
from unalike.federation.partition.natural import Natural
from unalike.federation.readers.cifar import read_delta


def sizes(examples) -> dict[str, int]:
    return dict(zip(examples.group_names, np.bincount(examples.groups).tolist(), strict=True))


def test_mnist_by_writer(shared, monkeypatch):
    monkeypatch.setenv("UNALIKE_DATA", shared)
    examples = Mnist(clients="writer").load()
    assert examples.x.shape == (60000, 1, 28, 28)
    assert (examples.x.min(), examples.x.max()) == (0, 1)
    assert np.bincount(examples.y).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949
    ]  # fmt: skip
    assert np.bincount(examples.test_y).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009
    ]  # fmt: skip
    by_writer = np.bincount(examples.groups)
    assert (len(by_writer), by_writer.min(), by_writer.max()) == (539, 19, 131)
    assert np.median(by_writer) == 116
    first = (examples.x[0, 0] * 255).round().byte()
    assert first.sum() == 27525  # the famous first five


def test_fashion_mnist(shared):
    examples = FashionMnist(folder=shared).load()
    assert examples.x.shape == (60000, 1, 28, 28)
    assert set(np.bincount(examples.y)) == {6000}
    assert set(np.bincount(examples.test_y)) == {1000}
    assert examples.class_names[9] == "Ankle boot"
    assert examples.groups is None


def sha1_of_binary_version(x: np.ndarray, y: np.ndarray) -> str:
    records = np.concatenate([y[:, None].astype(np.uint8), x.reshape(len(x), -1)], axis=1)
    return hashlib.sha1(records.tobytes()).hexdigest()


def test_cifar10_test_set_is_the_published_one(shared):
    x, y = read_delta(Path(shared) / "cifar10_test.npz")
    assert set(np.bincount(y)) == {1000}
    assert sha1_of_binary_version(x, y).startswith("67eb016d")


@pytest.mark.slow
def test_cifar10_training_set_is_the_published_one(shared):
    examples = Cifar10(folder=shared).load()
    assert examples.x.shape == (50000, 3, 32, 32)
    assert examples.test_x.shape == (10000, 3, 32, 32)
    assert set(np.bincount(examples.y)) == {5000}
    x = (examples.x * 255).round().byte().numpy()
    sums = [
        sha1_of_binary_version(x[part], examples.y.numpy()[part])[:8]
        for part in (slice(n, n + 10000) for n in range(0, 50000, 10000))
    ]
    assert sums == ["aadd24ac", "c0ba65cc", "1dd00a74", "aab85764", "26e2849e"]


def test_berka_has_the_published_regions(shared):
    examples = Berka(folder=shared).load()
    assert examples.x.shape == (621, 15)
    assert sizes(examples) == {
        "Prague": 84,
        "central Bohemia": 90,
        "east Bohemia": 84,
        "north Moravia": 117,
        "south Bohemia": 60,
        "south Moravia": 129,
        "west Bohemia": 57,
    }
    count = np.bincount(examples.groups)
    assert (count.mean().round(2), count.std().round(2)) == (88.71, 24.78)
    assert np.bincount(examples.groups, examples.y).tolist() == [7, 10, 9, 18, 9, 13, 9]
    dummies = ((examples.x == 0) | (examples.x == 1)).all(0)
    assert dummies.tolist() == [False] * 13 + [True] * 2


def test_berka_is_standardised_by_each_region_s_training_rows(shared):
    federation = federate(Berka(folder=shared), Natural(), seed=1)
    prague = federation.names.index("Prague")
    x = federation.examples.x
    for client in range(7):
        rows = x[federation.rows(TRAIN).of(client)][:, :11]  # salary and jobs: constant in Prague
        assert rows.mean(0).abs().max() < 1e-5
        assert torch.allclose(rows.std(0, correction=0), torch.ones(11), atol=1e-4)
    assert x[federation.rows(TEST).of(prague)].abs().max() < 30
    assert set(x[:, 13:].unique().tolist()) == {0, 1}


def test_heart_has_four_hospitals(shared):
    examples = Heart(folder=shared).load()
    assert examples.x.shape == (920, 15)
    assert sizes(examples) == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
    healthy = np.bincount(examples.groups[examples.y.numpy() == 0])
    assert healthy.tolist() == [164, 188, 8, 51]
    filled = federate(Heart(folder=shared), Natural()).examples.x
    assert torch.all(filled[:, 8:12].sum(1) == 1)
    assert torch.all(filled[:, 12:].sum(1) == 1)


def test_heart_fills_what_was_not_measured_by_rows_that_train(shared):
    federation = federate(Heart(folder=shared, normalise="none"), Natural(), new_clients=1)
    table = pl.read_parquet(Path(shared) / "heart_disease.parquet")
    trains = federation.part == TRAIN
    measured = table["chol"].to_numpy()[trains]
    median = np.median(measured[measured > 0])  # NaN is not above 0
    switzerland = federation.names.index("switzerland")
    assert set(federation.examples.x[federation.owner == switzerland, 3].tolist()) == {median}
    missing = table["restecg"].is_null().to_numpy()
    common = table.filter(trains)["restecg"].drop_nulls().mode().min()
    assert missing.any()
    assert (federation.examples.x[missing, 12 + int(common)] == 1).all()


def test_heart_with_complete_rows_only(shared):
    # The four sizes that the FLamby benchmark publishes.
    counts = sizes(Heart(folder=shared, missing="drop").load())
    assert list(counts.values()) == [303, 261, 46, 130]


def test_adult(shared):
    examples = Adult(folder=shared).load()
    assert np.bincount(examples.y).tolist() == [24720, 7841]
    assert np.bincount(examples.test_y).tolist() == [12435, 3846]
    assert examples.class_names == ("<=50K", ">50K")
    # 5 numbers and 8 text columns, three of them with a level for "missing".
    assert examples.x.shape[1] == 5 + (8 + 1) + 16 + 7 + (14 + 1) + 6 + 5 + 2 + (41 + 1)


def test_adult_by_education(shared):
    examples = Adult(folder=shared, clients="education_num").load()
    assert len(examples.group_names) == 16
    assert examples.group_names[:3] == ("1", "2", "3")
    assert examples.x.shape[1] == 107 - 1 - 16


def test_adult_by_the_protocol_of_lg_fedavg(shared):
    examples = Adult(folder=shared, protocol="lg-fedavg").load()
    assert len(examples) == 30940
    assert examples.test_x is None


def test_mqp_by_doctor(shared):
    examples = Mqp(folder=shared).load()
    assert np.bincount(examples.y).tolist() == [1524, 1524]
    assert list(sizes(examples).values()) == [
        130, 426, 280, 272, 276, 280, 278, 280, 280, 280, 266
    ]  # fmt: skip
    assert examples.group_names[-1] == "11"
    assert examples.x.shape == (3048, 1024)
    # Words that two questions share are evidence for the same meaning.
    shared_words = examples.x[:, 512:].sum(1)
    assert shared_words[examples.y == 1].mean() > shared_words[examples.y == 0].mean()


def test_shakespeare_roles(shared):
    short = {"length": 1, "stride": 10**6}
    assert len(Shakespeare(folder=shared, min_lines=1, **short).load().group_names) == 1390
    assert len(Shakespeare(folder=shared, **short).load().group_names) == 1173


def test_shakespeare_windows_are_consecutive_text(shared):
    examples = Shakespeare(folder=shared).load()
    letters = np.array(list(VOCABULARIES["leaf"]))
    assert len(letters) == 80
    assert examples.x.shape == (len(examples), 80)
    assert examples.kind == "characters"
    text = "".join(letters[examples.x[0]])
    assert text.startswith("Nay, but this dotage of our general's O'erflows the measure:")
    # What comes after a window is how the same role's next window begins.
    same = examples.groups[1:] == examples.groups[:-1]
    assert np.array_equal(examples.y[:-1][same], examples.x[1:, 0][same])
    table = pl.read_parquet(Path(shared) / "shakespeare_plays.parquet")
    spoken = table.filter(pl.col("role") == "HAMLET")["line"].to_list()
    hamlet = examples.groups == next(
        i for i, name in enumerate(examples.group_names) if name.endswith(": HAMLET")
    )
    assert hamlet.sum() == (len(" ".join(spoken)) - 1) // 80


def test_shakespeare_settings(shared):
    examples = Shakespeare(
        folder=shared, target="every", max_windows=3, stride=7, vocabulary="printable"
    ).load()
    assert examples.classes == 100
    assert np.bincount(examples.groups).max() == 3
    assert torch.equal(examples.y[:, :-1], examples.x[:, 1:].long())
    assert torch.equal(examples.x[0, 7:], examples.x[1, :-7])
    assert np.array_equal(examples.strata, examples.y[:, -1])
