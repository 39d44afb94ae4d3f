import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.errors import ConfigError, DataError
from unalike.federation.data import TEST, TRAIN, VALIDATION, Examples
from unalike.federation.readers import from_arrays
from unalike.federation.split import _by_cell, split


def examples_of(labels, classes=None) -> Examples:
    labels = np.asarray(labels)
    x = np.arange(len(labels), dtype=np.float32)[:, None]
    return from_arrays(x, labels, classes=classes or int(labels.max()) + 2)


def deal(labels, owner, seed=0, **options):
    return split(examples_of(labels), np.asarray(owner), rng=np.random.default_rng(seed), **options)


@st.composite
def partitions(draw):
    clients = draw(st.integers(2, 8))
    n = draw(st.integers(clients, 80))
    seed = draw(st.integers(0, 2**32 - 1))
    classes = draw(st.integers(1, 5))
    rng = np.random.default_rng(seed)
    owner = rng.permutation(
        np.concatenate([np.arange(clients), rng.integers(0, clients, n - clients)])
    )
    return rng.integers(0, classes, n), owner


def test_parts_have_names():
    """As rows have them: a name that is taken for no part at all would count nothing."""
    made = deal([0, 1] * 20, [0] * 30 + [1] * 10)
    for name, part in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        found = made.sizes(name).tolist()
        assert found == made.sizes(part).tolist() == made.rows(name).sizes.tolist()
    assert made.sizes("train").tolist() == [21, 7]
    with pytest.raises(ConfigError, match="unknown part 'tests'"):
        made.sizes("tests")


shares = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.25, 1 / 3, 0.45])


def by_hand(n: int, validation: float, test: float) -> tuple[int, int, int]:
    """Largest remainder for one client, as the module's head states it."""
    exact = {TRAIN: n * (1 - validation - test), TEST: n * test, VALIDATION: n * validation}
    whole = {part: math.floor(value + 1e-9) for part, value in exact.items()}
    order = sorted(exact, key=lambda part: -round(exact[part] - whole[part], 9))
    for part in order[: n - sum(whole.values())]:
        whole[part] += 1
    if whole[TRAIN] == 0:
        whole[VALIDATION if whole[VALIDATION] else TEST] -= 1
        whole[TRAIN] += 1
    return whole[TRAIN], whole[VALIDATION], whole[TEST]


@given(partitions(), shares, shares)
@settings(max_examples=60, deadline=None)
def test_client_totals_are_rounded_by_largest_remainder(partition, validation, test):
    labels, owner = partition
    federation = deal(labels, owner, validation=validation, test=test)
    for client, n in enumerate(np.bincount(owner)):
        got = tuple(int(federation.sizes(part)[client]) for part in (TRAIN, VALIDATION, TEST))
        assert got == by_hand(int(n), validation, test)
        assert got[0] >= 1


@given(partitions(), shares, shares)
@settings(max_examples=60, deadline=None)
def test_every_class_is_within_one_of_its_share_unless_it_gives_for_others(
    partition, validation, test
):
    labels, owner = partition
    federation = deal(labels, owner, validation=validation, test=test)
    for client in range(federation.n_clients):
        mine = owner == client
        left = np.ones(len(owner), bool)
        for part in (TEST, VALIDATION):
            total, size = federation.sizes(part)[client], (mine & left).sum()
            cells = [mine & left & (labels == label) for label in np.unique(labels[mine])]
            exact = np.array([cell.sum() * total / max(size, 1) for cell in cells])
            got = np.array([(federation.part[cell] == part).sum() for cell in cells])
            had = np.array([cell.sum() for cell in cells])
            spared = (got == 0) & (had == 1) if size else np.zeros(len(cells), bool)
            # A class gives less than one too little, and at most one more for each spared one.
            assert (exact - got < 1 + 1e-9).all() or spared.any()
            assert (got - exact < 1 + spared.sum() + 1e-9).all()
            # Nobody loses the last training example while another class has two.
            assert not ((had > 0) & (got == had)).any() or (had - got).max() <= 1
            left &= federation.part != part


def test_the_only_example_of_a_class_trains():
    """Nine single ones beside 291: shares of a fifth and a tenth would take two and one of them."""
    labels = np.repeat(np.arange(10), [1] * 9 + [291])
    for seed in range(5):
        federation = deal(labels, np.zeros(300, int), seed, validation=0.1, test=0.2)
        assert [int(federation.sizes(part)[0]) for part in (TRAIN, VALIDATION, TEST)] == [
            210,
            30,
            60,
        ]
        assert (federation.part[:9] == TRAIN).all()


@given(partitions(), st.data())
@settings(max_examples=40, deadline=None)
def test_new_clients_come_last_and_only_test(partition, data):
    labels, owner = partition
    clients = int(owner.max()) + 1
    new = data.draw(st.integers(0, clients - 1))
    names = tuple(f"c{k}" for k in range(clients))
    plain = deal(labels, owner, validation=0.2, test=0.2, names=names)
    federation = deal(labels, owner, validation=0.2, test=0.2, new_clients=new, names=names)
    assert (federation.n_clients, federation.n_new) == (clients - new, new)
    held = federation.owner >= federation.n_clients
    assert (federation.part[held] == TEST).all()
    # The others keep their order, their names and their split.
    assert np.array_equal(federation.part[~held], plain.part[~held])
    assert np.array_equal(np.array(federation.names)[federation.owner], np.array(names)[owner])
    kept = [int(name[1:]) for name in federation.names[: clients - new]]
    assert kept == sorted(kept)


def test_marks_go_with_their_clients():
    labels, owner = np.arange(40) % 2, np.arange(40) % 4
    words = ("near", "", "far", "near")
    federation = deal(labels, owner, new_clients=2, names=("0", "1", "2", "3"), marks=words)
    expected = [(words[int(name)],) if words[int(name)] else () for name in federation.names]
    assert list(federation.marks) == expected


def test_holding_out_more_clients_holds_out_the_same_and_more():
    labels, owner = np.arange(100) % 2, np.arange(100) % 20
    names = tuple(map(str, range(20)))
    held = [
        set(deal(labels, owner, new_clients=new, names=names).names[20 - new :]) for new in (3, 7)
    ]
    assert held[0] < held[1]


def test_another_test_share_holds_out_the_same_clients():
    labels, owner = np.arange(100) % 2, np.arange(100) % 20
    names = tuple(map(str, range(20)))
    one, other = (deal(labels, owner, test=t, new_clients=4, names=names).names for t in (0.1, 0.4))
    assert one == other


def test_the_split_follows_the_generator():
    labels, owner = np.arange(60) % 3, np.arange(60) % 4
    assert np.array_equal(deal(labels, owner).part, deal(labels, owner).part)
    assert not np.array_equal(deal(labels, owner).part, deal(labels, owner, seed=1).part)


def test_ties_between_classes_favour_none():
    # Every client has one example of each of five classes and one place in its test set.
    clients = 2000
    labels, owner = np.tile(np.arange(5), clients), np.repeat(np.arange(clients), 5)
    federation = deal(labels, owner, validation=0.0, test=0.2)
    tested = np.bincount(labels[federation.part == TEST])
    assert tested.sum() == clients
    # Binomial(2000, 1/5) has a standard deviation of 18.
    assert np.abs(tested - clients / 5).max() < 5 * 18


def test_published_sizes():
    # 1,200 examples and a 20 % holdout leave 960 to train on.
    federation = deal(np.arange(1200) % 2, np.zeros(1200, int), validation=0.0, test=0.2)
    assert federation.sizes(TRAIN).tolist() == [960]


def test_the_own_test_set_is_kept():
    x = np.zeros((10, 1))
    examples = from_arrays(x, [0, 1] * 5, test=(x + 1, [0, 1] * 5))
    federation = split(examples, np.zeros(10, int), rng=np.random.default_rng(0))
    assert torch.equal(federation.examples.test_x, torch.ones(10, 1))


def test_a_hundred_thousand_clients_take_seconds():
    rng = np.random.default_rng(0)
    owner = np.concatenate([np.arange(100_000), rng.integers(0, 100_000, 400_000)])
    examples = examples_of(rng.integers(0, 10, len(owner)))
    began = time.perf_counter()
    federation = split(examples, owner, new_clients=1000, rng=rng)
    assert time.perf_counter() - began < 5
    assert federation.n_clients == 99_000
    assert federation.sizes(TRAIN)[:99_000].min() == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"test": 1.0}, ["test", "1.0"]),
        ({"test": -0.1}, ["test", "-0.1"]),
        ({"validation": float("nan")}, ["validation", "nan"]),
        ({"validation": 0.5, "test": 0.5}, ["0.5 + 0.5"]),
        ({"new_clients": 2}, ["new_clients", "0 to 1", "got 2"]),
        ({"new_clients": -1}, ["new_clients", "-1"]),
    ],
)
def test_settings_out_of_range(options, words, one_sentence):
    with one_sentence(ConfigError, *words):
        deal([0, 1, 0, 1], [0, 0, 1, 1], **options)


@pytest.mark.parametrize(
    ("owner", "options", "words"),
    [
        ([0, 0, 1], {}, ["4 examples", "(3,)"]),
        ([0.0, 0.0, 1.0, 1.0], {}, ["whole number", "float64"]),
        ([0, 0, -1, 1], {}, ["numbered from 0"]),
        ([0, 0, 2, 2], {}, ["client 1 of 3", "no example"]),
        ([0, 0, 1, 1], {"names": ("a",)}, ["1 client names", "2 clients"]),
        ([0, 0, 1, 1], {"marks": ("a",)}, ["1 client marks", "2 clients"]),
    ],
)
def test_bad_owners(owner, options, words, one_sentence):
    with one_sentence(DataError, *words):
        deal([0, 1, 0, 1], owner, **options)


@pytest.mark.parametrize("apart", [1e-3, 1e-16])
def test_rows_of_a_cell_are_ordered_by_lot(apart: float) -> None:
    """Also where a client's number leaves no digits for the lot."""
    cell = np.repeat([10**7, 3, 10**7 + 1], 4)
    lot = np.tile([0.5 + apart, 0.25, 0.5, 1 - 1e-16], 3)
    assert _by_cell(cell, lot).tolist() == np.lexsort((lot, cell)).tolist()


def test_rows_that_are_not_stratified_are_any_of_a_clients_rows():
    """Totals are the same; classes are in proportion on average only."""
    labels, owner = np.tile([0, 1], 5_000), np.repeat(np.arange(100), 100)
    even, free = (deal(labels, owner, stratified=each) for each in (True, False))
    for part in (TRAIN, VALIDATION, TEST):
        assert (even.sizes(part) == free.sizes(part)).all()
    ones = [
        np.bincount(made.owner[rows], labels[rows], minlength=100)
        for made in (even, free)
        for rows in [np.flatnonzero(made.part == TEST)]
    ]
    assert set(ones[0].tolist()) == {10.0}
    # hypergeometric: 20 of 100 rows, half of them ones
    assert np.var(ones[1]) == pytest.approx(20 * 0.25 * 80 / 99, rel=0.5)
    assert ones[1].mean() == pytest.approx(10, abs=1)
