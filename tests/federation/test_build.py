import numpy as np
import pytest
import torch

from unalike.errors import ConfigError, DataError
from unalike.federation.build import PARTITION, SHIFT, SPLIT, federate, stream
from unalike.federation.data import TEST, TRAIN, VALIDATION
from unalike.federation.datasets.breast_cancer import BreastCancer
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.federation.partition.emd import Emd
from unalike.federation.partition.mixed import Mixed
from unalike.federation.partition.natural import Natural
from unalike.federation.shift.label_noise import LabelNoise
from unalike.federation.shift.noise import Noise
from unalike.federation.skew import emd

DIGITS = Digits().load()
SKEWED = Dirichlet(clients=10, alpha=0.5)


def test_ten_lines_from_arrays_to_a_federation():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 4)), rng.integers(0, 3, 300)
    federation = federate((x, y), SKEWED, new_clients=2, seed=3)
    assert (federation.n_clients, federation.n_new) == (8, 2)
    assert federation.counts.shape == (8, 3)
    assert sum(federation.sizes(part).sum() for part in range(3)) == 300


def test_the_seed_decides_everything():
    one, same, other = (federate(DIGITS, SKEWED, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.owner, same.owner)
    assert np.array_equal(one.part, same.part)
    assert not np.array_equal(one.owner, other.owner)


def test_another_split_leaves_the_partition():
    one = federate(DIGITS, SKEWED, validation=0.0, test=0.1)
    other = federate(DIGITS, SKEWED, validation=0.2, test=0.3)
    assert np.array_equal(one.owner, other.owner)


def test_another_partition_of_the_same_sizes_draws_the_same_lots():
    draws = [stream(5, purpose).random(3).tolist() for purpose in (PARTITION, SPLIT, SHIFT)]
    assert draws[0] != draws[1] != draws[2] != draws[0]
    assert stream(5, SHIFT, 0).random() != stream(5, SHIFT, 1).random()


def test_one_more_shift_leaves_the_others():
    noise = LabelNoise(ratio=0.5)
    one = federate(DIGITS, SKEWED, [noise])
    two = federate(DIGITS, SKEWED, [noise, Noise()])
    assert torch.equal(one.examples.y, two.examples.y)
    assert not torch.equal(one.examples.x, two.examples.x)


def test_label_noise_spares_the_test_rows():
    clean = federate(DIGITS, SKEWED)
    noisy = federate(DIGITS, SKEWED, [LabelNoise(ratio=0.5)])
    wrong = (clean.examples.y != noisy.examples.y).numpy()
    assert np.array_equal(clean.part, noisy.part)
    assert not wrong[clean.part == TEST].any()
    for part in (TRAIN, VALIDATION):
        assert 0.4 < wrong[clean.part == part].mean() < 0.6
    assert noisy.outcomes == clean.outcomes  # what came of the partition, not of the noise


def test_examples_that_nobody_holds_are_left_out_and_counted():
    mixed = Mixed(clients=10, sizes=[2, 8], alphas=[50.0, 0.3])
    federation = federate(DIGITS, mixed, new_clients=2)
    assert federation.unused > 100
    assert len(federation.examples) == 1797 - federation.unused
    held = federation.examples.x.flatten(1)
    rows = {row.tobytes() for row in DIGITS.x.flatten(1).numpy()}
    assert all(row.tobytes() in rows for row in held.numpy())
    sizes = sum(federation.sizes(part) for part in range(3))
    assert np.ptp(sizes) == 0
    assert [len(words) for words in federation.marks] == [1] * 10


def test_what_was_asked_stands_beside_what_came_of_it():
    federation = federate(DIGITS, Emd(clients=10, target=1.2))
    (found,) = federation.outcomes
    assert (found.what, found.asked) == ("EMD", 1.2)
    assert found.got == pytest.approx(emd(federation.counts))
    assert found.got == pytest.approx(1.2, rel=0.02)


def test_natural_clients_keep_their_names():
    x, y = np.zeros((40, 2)), np.arange(40) % 2
    towns = np.repeat(["ulm", "bonn", "jena", "kiel"], 10)
    federation = federate((x, y, towns), Natural(), new_clients=1)
    assert sorted(federation.names) == ["bonn", "jena", "kiel", "ulm"]
    assert np.array_equal(np.array(federation.names)[federation.owner], towns)
    assert federation.sizes(TEST)[3] == 10


def test_a_named_dataset_is_loaded_and_standardised_after_the_split():
    federation = federate(BreastCancer(normalise="client"), SKEWED)
    for client in range(10):
        rows = federation.examples.x[federation.rows(TRAIN).of(client)]
        assert rows.mean(0).abs().max() < 1e-3
    assert torch.equal(federate(Digits(), SKEWED).examples.x, DIGITS.x)


@pytest.mark.parametrize(
    ("data", "seed", "words"),
    [
        ("mnist", 0, ["str"]),
        ((np.zeros((4, 1)),), 0, ["(x, y)"]),
        (DIGITS, -1, ["seed", "-1"]),
    ],
)
def test_bad_arguments(data, seed, words, one_sentence):
    with one_sentence(ConfigError, *words):
        federate(data, SKEWED, seed=seed)


def test_natural_needs_groups(one_sentence):
    with one_sentence(DataError, "natural clients"):
        federate(DIGITS, Natural())


def test_one_class_is_no_classification(one_sentence):
    with one_sentence(DataError, "all 6 labels are '3'", "at least two classes"):
        federate((np.zeros((6, 2)), [3] * 6), Dirichlet(clients=2))
