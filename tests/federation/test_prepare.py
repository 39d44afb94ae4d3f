"""What is learned about features is learned from the training rows of training clients alone."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from unalike.errors import DataError
from unalike.federation.build import federate
from unalike.federation.columns import NOTHING, Pending, Scale
from unalike.federation.data import TEST, TRAIN, Federation
from unalike.federation.partition.iid import Iid
from unalike.federation.partition.natural import Natural
from unalike.federation.prepare import prepared
from unalike.federation.readers import from_arrays, from_frame
from unalike.federation.split import split


def scaled(federation: Federation, scale: Scale) -> Federation:
    """The federation prepared with this scale alone."""
    waiting = replace(federation.examples, pending=Pending(scale=scale))
    return prepared(replace(federation, examples=waiting))


@pytest.mark.parametrize("held_out", ["a client", "the tests", "the own test set"])
def test_rows_that_do_not_train_have_no_say(held_out):
    """Five clients of N(0, 1), and something held out that lies at 100.

    Fitted on all rows, the spread of the column over training rows would be 0.027, not 1.
    """
    rng = np.random.default_rng(0)
    x, owner = rng.normal(size=(600, 1)), np.repeat(np.arange(6), 100)
    names = np.array(list("abcdef"))[owner]
    for seed in range(20):  # until f is the client that is held out
        federation = federate((x, owner % 2, names), Natural(), new_clients=1, seed=seed)
        if federation.names[-1] == "f":
            break
    far = {
        "a client": federation.owner == 5,
        "the tests": federation.part == TEST,
        "the own test set": np.zeros(600, bool),
    }[held_out]
    moved = np.where(far[:, None], x + 100, x)
    test = (x[:50] + 100, owner[:50] % 2) if held_out == "the own test set" else None
    examples = from_arrays(moved, owner % 2, names, test=test, pending=Pending(scale="pooled"))
    found = federate(examples, Natural(), new_clients=1, seed=seed)
    train = found.examples.x[torch.from_numpy(found.part == TRAIN)]
    assert found.names[-1] == "f"
    assert train.std(correction=0) == pytest.approx(1, abs=1e-4)
    assert train.mean() == pytest.approx(0, abs=1e-4)
    outside = found.examples.test_x if test else found.examples.x[torch.from_numpy(far)]
    assert 90 < outside.mean() < 110


def table(rows: int = 300) -> pl.DataFrame:
    """Numbers and text with gaps; the sixth client has levels and numbers of its own."""
    rng = np.random.default_rng(1)
    client = np.arange(rows) % 6
    age = rng.normal(50, 10, rows) + 1000 * (client == 5)
    job = np.where(client == 5, "pilot", rng.choice(["baker", "clerk", "smith"], rows))
    return pl.DataFrame(
        {
            "age": [None if u < 0.2 else v for u, v in zip(rng.random(rows), age, strict=True)],
            "job": [None if u < 0.1 else v for u, v in zip(rng.random(rows), job, strict=True)],
            "member": rng.random(rows) < 0.5,
            "town": [f"t{k}" for k in client],
            "label": rng.integers(0, 2, rows),
        }
    )


def test_fills_levels_and_scales_agree_with_scikit_learn():
    frame = table()
    examples = from_frame(frame, "label", "town", missing="impute", normalise="pooled")
    assert examples.x.shape[1] == 1 + 5 + 1  # four jobs and (missing)
    for seed in range(40):
        found = federate(examples, Natural(), new_clients=1, seed=seed)
        if found.names[-1] == "t5":
            break
    train = found.part == TRAIN
    age = frame["age"].cast(pl.Float64).fill_null(float("nan")).to_numpy()[:, None]
    age = SimpleImputer(strategy="median").fit(age[train]).transform(age)
    age = StandardScaler().fit(age[train]).transform(age)
    jobs = frame["job"].fill_null("(missing)").to_numpy()[:, None]
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(jobs[train])
    assert encoder.categories_[0].tolist() == ["(missing)", "baker", "clerk", "smith"]
    member = frame["member"].to_numpy()[:, None].astype(float)
    expected = np.concatenate([age, encoder.transform(jobs), member], axis=1)
    assert np.allclose(found.examples.x, expected, atol=1e-4)
    pilots = found.examples.x[torch.from_numpy(frame["job"].to_numpy() == "pilot"), 1:5]
    assert len(pilots)
    assert pilots.abs().max() == 0
    assert found.examples.pending == NOTHING


def test_the_first_level_that_trains_is_the_one_left_out():
    frame = pl.DataFrame({"job": ["a", "b", "c", "b"] * 5, "label": [0, 1] * 10})
    only = from_frame(frame, drop_first=True)
    assert federate(only, Iid(clients=1)).examples.x[:4].tolist() == [
        [0, 0],
        [1, 0],
        [0, 1],
        [1, 0],
    ]
    rare = pl.DataFrame({"job": ["a"] + ["b", "c"] * 10, "label": [0, 1, 1] * 7})
    for seed in range(60):  # until the only a is a test row
        found = federate(from_frame(rare, drop_first=True), Iid(clients=1), seed=seed)
        if found.part[0] == TEST:
            break
    assert found.part[0] == TEST
    assert found.examples.x.tolist() == [[0.0]] + [[0.0], [1.0]] * 10


def test_a_test_set_of_its_own_is_filled_and_coded_by_the_training_rows():
    train = pl.DataFrame(
        {"a": [1.0, None, 5.0, 30.0], "b": ["x", None, "x", "y"], "label": [0, 1] * 2}
    )
    test = pl.DataFrame({"a": [None, 1e9], "b": [None, "z"], "label": [0, 1]})
    examples = from_frame(train, test=test, missing="impute", normalise="none")
    found = federate(examples, Iid(clients=1), validation=0, test=0).examples
    assert found.x[:, 0].tolist() == [1, 5, 5, 30]
    assert found.test_x.tolist() == [[5, 1, 0, 0], [1e9, 0, 0, 0]]


def test_the_median_of_an_even_number_is_between_the_two():
    frame = pl.DataFrame({"a": [1.0, None, 5.0, 9.0, 2.0], "label": [0, 1, 0, 1, 0]})
    examples = from_frame(frame, missing="impute", normalise="none")
    found = federate(examples, Iid(clients=1), validation=0, test=0)
    assert found.examples.x.flatten().tolist() == [1, 3.5, 5, 9, 2]


def test_a_column_that_no_training_row_has_is_refused(one_sentence):
    frame = pl.DataFrame(
        {"a": [1.0, 2.0] + [None] * 18, "who": ["x"] * 2 + ["y"] * 18, "label": [0, 1] * 10}
    )
    examples = from_frame(frame, "label", "who", missing="impute")
    with one_sentence(DataError, "'a'", "training rows", "drop it"):
        for seed in range(20):  # until x is held out
            federate(examples, Natural(), new_clients=1, seed=seed)


def test_standardising_leaves_dummies_and_constants_alone():
    x = np.array([[30, 1, 7.1], [40, 0, 7.1], [50, 1, 7.1], [60, 1, 7.1]], np.float32)
    examples = from_arrays(x, [0, 1, 0, 1], test=(x + np.array([15, 0, 0]), [0, 1, 0, 1]))
    federation = split(
        examples, np.zeros(4, int), validation=0, test=0, rng=np.random.default_rng(0)
    )
    found = scaled(federation, "pooled").examples
    assert found.x[:, 0].tolist() == pytest.approx([-1.3416408, -0.4472136, 0.4472136, 1.3416408])
    assert found.x[:, 1].tolist() == [1, 0, 1, 1]
    assert found.x[:, 2].abs().max() < 1e-6
    assert found.test_x[0, 0] == pytest.approx(0)


def test_channels_are_scaled_by_the_training_images():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (50, 4, 4, 3), np.uint8) // np.array([1, 2, 5], np.uint8)
    labels = np.arange(50) % 2
    examples = from_arrays(pixels, labels, test=(pixels[:9], labels[:9]))
    federation = split(examples, np.arange(50) % 5, new_clients=1, rng=rng)
    found = scaled(federation, "pooled").examples
    own = found.x[torch.from_numpy(federation.part == TRAIN)]
    assert own.mean((0, 2, 3)).abs().max() < 1e-5
    assert torch.allclose(own.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5)
    assert torch.allclose(found.test_x, found.x[:9])


def test_an_empty_channel_stays_finite():
    examples = from_arrays(np.zeros((50, 4, 4), np.uint8), np.arange(50) % 2)
    federation = split(examples, np.zeros(50, int), rng=np.random.default_rng(0))
    assert scaled(federation, "pooled").examples.x.abs().max() == 0


def test_sequences_are_refused(one_sentence):
    examples = from_arrays(np.zeros((50, 4, 4)), np.arange(50) % 2)
    federation = split(examples, np.zeros(50, int), rng=np.random.default_rng(0))
    with one_sentence(DataError, "(4, 4)"):
        scaled(federation, "pooled")


def test_standardising_per_client_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(5), 40)
    x = rng.normal(owner[:, None] * 10.0, 1 + owner[:, None], (200, 3))
    x = np.concatenate([x, rng.integers(0, 2, (200, 1))], axis=1)
    examples = from_arrays(x, np.arange(200) % 2, test=(x[:5], [0, 1, 0, 1, 0]))
    federation = split(examples, owner, new_clients=1, rng=rng)
    found = scaled(federation, "client").examples
    everyone = StandardScaler().fit(x[federation.part == TRAIN])
    for client in range(5):
        mine = federation.owner == client
        own = mine & (federation.part == TRAIN)
        scaler = StandardScaler().fit(x[own]) if client < 4 else everyone
        expected = scaler.transform(x[mine])[:, :3]
        assert np.allclose(found.x[mine][:, :3], expected, atol=1e-4)
    assert torch.equal(found.x[:, 3], examples.x[:, 3])
    assert np.allclose(found.test_x[:, :3], everyone.transform(x[:5])[:, :3], atol=1e-4)
    assert torch.equal(federation.examples.x, examples.x)


def test_where_a_client_does_not_vary_the_spread_of_all_is_used():
    x = np.array([[5.0]] * 5 + [[0.0], [2.0], [4.0], [6.0], [8.0]], np.float32)
    examples = from_arrays(x, [0, 1] * 5)
    federation = split(
        examples, np.repeat([0, 1], 5), validation=0, test=0, rng=np.random.default_rng(0)
    )
    found = scaled(federation, "client").examples.x
    assert found[:5].abs().max() == 0
    assert found.isfinite().all()


def test_images_cannot_be_standardised_per_client(one_sentence):
    examples = from_arrays(np.zeros((4, 1, 8, 8)), [0, 1, 0, 1])
    federation = split(examples, np.zeros(4, int), rng=np.random.default_rng(0))
    with one_sentence(DataError, "tables", "(1, 8, 8)"):
        scaled(federation, "client")


def test_nothing_pending_changes_nothing():
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    found = federate(from_arrays(x, np.arange(20) % 2, normalise="none"), Iid(clients=2))
    assert torch.equal(found.examples.x, torch.from_numpy(x))
