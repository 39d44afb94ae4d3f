"""Label-limiting samplers and the EMD sampler against their closed forms."""

import numpy as np
import partitions
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import ConfigError, DataError
from unalike.federation import skew
from unalike.federation.partition.base import Partitioner
from unalike.federation.partition.emd import Emd, robin_hood
from unalike.federation.partition.keep_one import at_least_one
from unalike.federation.partition.label_sets import priority_labels
from unalike.federation.partition.limit_label import LimitLabel
from unalike.federation.partition.limit_label_q import LimitLabelQ
from unalike.federation.partition.q_sampler import QSampler
from unalike.federation.partition.rounding import round_columns


def table(partitioner: Partitioner, n: int = 60_000, classes: int = 10) -> np.ndarray:
    return partitions.table(partitioner, np.arange(n) % classes, classes)


@pytest.mark.parametrize(
    ("t", "f", "emd"),
    [
        (2, 0.9, 1.44),
        (1, 1.0, 1.8),
        (2, 1.0, 1.6),
        (3, 1.0, 1.4),
        (5, 1.0, 1.0),
        (2, 0.2, 0.32),
        (2, 0.6, 0.96),
        (2, 0.8, 1.28),
        (1, 0.78, 1.404),
        (2, 0.86, 1.376),
        (2, 0.88, 1.408),
        (7, 0.0, 0.0),
    ],
)
def test_limit_label_has_the_published_emd(t: int, f: float, emd: float) -> None:
    counts = table(LimitLabel(clients=20, t=t, f=f, keep_one=False))
    assert skew.emd(counts) == pytest.approx(emd, abs=0.005)
    assert np.ptp(counts.sum(axis=1)) <= 2


def test_limit_label_levels_and_owners() -> None:
    counts = table(LimitLabel(clients=20, t=2, f=0.9))
    mixes = counts / counts.sum(axis=1, keepdims=True)
    owned = mixes > 0.2
    assert (owned.sum(axis=1) == 2).all()
    assert (owned.sum(axis=0) == 4).all()
    assert mixes[owned] == pytest.approx(0.46, abs=1e-3)
    assert mixes[~owned] == pytest.approx(0.01, abs=1e-3)


def test_many_classes_and_a_number_of_clients_that_only_suits_t() -> None:
    def emd(n: int, classes: int, clients: int, t: int) -> float:
        return skew.emd(table(LimitLabel(clients=clients, t=t, keep_one=False), n, classes))

    assert emd(62_000, 62, 62, 2) == pytest.approx(1.935484, abs=1e-3)
    assert emd(60_000, 10, 15, 2) == pytest.approx(1.6, abs=1e-3)
    assert emd(50_000, 100, 5, 20) == pytest.approx(1.6, abs=1e-3)


def test_pure_limits_give_no_other_class_unless_one_is_kept() -> None:
    pure = table(LimitLabel(clients=20, t=2, f=1.0, keep_one=False))
    kept = table(LimitLabel(clients=20, t=2, f=1.0, keep_one=True))
    assert ((pure > 0).sum(axis=1) == 2).all()
    assert kept.min() == 1
    assert (kept == 1).sum() == 20 * 8
    assert skew.emd(kept) == pytest.approx(1.6, abs=0.006)


@pytest.mark.parametrize("t", [1, 2, 3])
def test_left_out_one_is_kept_where_f_is_one(t: int) -> None:
    """Of 3000 examples a client keeps 10 - t for the others: the EMD falls by twice their share."""
    kept = table(LimitLabel(clients=20, t=t))
    assert (kept == 1).sum() == 20 * (10 - t)
    assert kept.min() == 1
    assert skew.emd(kept) == pytest.approx(2 * (1 - t / 10 - (10 - t) / 3000), abs=2e-3)


def test_left_out_none_is_kept_below_one_or_where_a_class_is_too_small() -> None:
    """A share of 1/1000 of 6000 examples is 6, less than one for each of 20 clients."""
    assert (table(LimitLabel(clients=20, t=2, f=0.999)) == 0).any()
    assert ((table(LimitLabel(clients=20, t=2), n=190) > 0).sum(axis=1) <= 2).all()


def test_one_of_each_class_needs_enough_examples() -> None:
    with pytest.raises(DataError, match="class 0 has 10; use fewer clients or keep_one"):
        table(LimitLabel(clients=20, keep_one=True), n=100)


@pytest.mark.parametrize(
    ("q", "emd"), [(0.5, 0.8), (0.8, 1.4), (0.05, 0.1), (0.1, 0.0), (1.0, 1.8)]
)
def test_q_sampler_has_the_published_emd(q: float, emd: float) -> None:
    counts = table(QSampler(clients=20, q=q))
    assert skew.emd(counts) == pytest.approx(emd, abs=0.005)
    mixes = counts / counts.sum(axis=1, keepdims=True)
    own = np.abs(mixes - 0.1).argmax(axis=1)
    assert mixes[np.arange(20), own] == pytest.approx(q, abs=1e-3)
    assert q == 0.1 or np.bincount(own).tolist() == [2] * 10


@pytest.mark.parametrize("t", range(1, 10))
@pytest.mark.parametrize("q", [0.0, 0.33, 0.9, 1.0])
def test_limit_label_q_follows_its_formula(t: int, q: float) -> None:
    counts = table(LimitLabelQ(clients=20, t=t, q=q))
    assert skew.emd(counts) == pytest.approx(2 * abs(q - t / 10), abs=0.005)


def test_unequal_classes_are_all_dealt() -> None:
    labels = np.repeat(np.arange(5), [10, 500, 3, 0, 87])
    for sampler in (LimitLabel(t=2, f=0.5), QSampler(), LimitLabelQ(), Emd(target=1.0)):
        owner = partitions.owners(sampler, labels, 5)
        assert np.bincount(owner, minlength=10).min() >= 1


@pytest.mark.parametrize(
    ("target", "moves"),
    [(0.4, 88), (0.8, 107), (1.0, 154), (1.2, 248), (1.4, 364), (1.6, 335)],
)
def test_robin_hood_reaches_the_target_in_the_published_number_of_moves(
    target: float, moves: int
) -> None:
    walks = [robin_hood(target, 10, np.random.default_rng(seed)) for seed in range(300)]
    mixes = np.array([mix for mix, _ in walks])
    taken = np.array([count for _, count in walks])
    assert mixes.sum(axis=1) == pytest.approx(1, abs=1e-9)
    assert mixes.min() >= 0
    assert np.abs(mixes - 0.1).sum(axis=1) == pytest.approx(target, abs=1.001e-3)
    assert taken.mean() == pytest.approx(moves, rel=0.25)
    if target == 1.4:
        assert mixes.max(axis=1).mean() == pytest.approx(0.63, abs=0.02)


@pytest.mark.parametrize("target", [0.0, 0.4, 1.0, 1.6, 1.8])
def test_the_emd_sampler_hits_its_target(target: float) -> None:
    counts = table(Emd(clients=20, target=target))
    assert skew.emd(counts) == pytest.approx(target, abs=0.005)
    assert np.ptp(counts.sum(axis=1)) <= 2


def test_a_walk_that_is_cut_short_says_so() -> None:
    with pytest.raises(ConfigError, match="after 3 moves; raise tolerance or max_iterations"):
        table(Emd(target=1.8, max_iterations=3))


@pytest.mark.parametrize("sampler", [QSampler(clients=4), LimitLabelQ(clients=4, t=1)])
def test_one_class_leaves_nothing_to_skew(sampler: Partitioner) -> None:
    with pytest.raises(ConfigError, match="use iid or quantity"):
        table(sampler, n=40, classes=1)


@pytest.mark.parametrize(("clients", "t"), [(20, 2), (40, 2), (20, 5), (10, 5), (15, 2)])
def test_label_sets_are_even_and_many(clients: int, t: int) -> None:
    """Walking around a circle would give 5 different sets for t = 2, and 2 for t = 5."""
    distinct = []
    for seed in range(30):
        owned = priority_labels("x", clients, 10, t, np.random.default_rng(seed))
        assert (owned.sum(axis=1) == t).all()
        assert (owned.sum(axis=0) == t * clients // 10).all()
        distinct.append(len({tuple(row) for row in owned.tolist()}))
    assert np.mean(distinct) > 0.65 * clients


def test_all_label_sets_are_equally_probable() -> None:
    """There are 6 ways to give 3 clients 2 of 3 labels evenly: chi-square with 5 degrees."""
    rng, seen = np.random.default_rng(0), {}
    for _ in range(1200):
        owned = priority_labels("x", 3, 3, 2, rng).tobytes()
        seen[owned] = seen.get(owned, 0) + 1
    assert len(seen) == 6
    assert sum((n - 200) ** 2 / 200 for n in seen.values()) < 20.5  # the 0.999 quantile


def test_pairs_of_labels_meet_equally_often() -> None:
    """45 pairs over 20 x 1000 clients; 44 degrees of freedom, the 0.999 quantile is 78.7."""
    met = np.zeros((10, 10))
    for seed in range(20):
        owned = priority_labels("x", 1000, 10, 2, np.random.default_rng(seed)).astype(int)
        met += owned.T @ owned
    pairs = met[np.triu_indices(10, 1)]
    assert ((pairs - pairs.mean()) ** 2 / pairs.mean()).sum() < 78.7


@pytest.mark.parametrize(
    "sampler",
    [
        LimitLabel(clients=20, t=2, f=0.999, keep_one=True),
        LimitLabelQ(clients=20, t=2, q=1.0, keep_one=True),
        QSampler(clients=20, q=1.0, keep_one=True),
        Emd(clients=20, target=1.8, keep_one=True),
    ],
)
def test_one_example_of_each_class_is_kept_where_asked(sampler: Partitioner) -> None:
    counts = table(sampler, n=6000)
    assert counts.min() == 1
    assert np.array_equal(counts.sum(axis=0), np.full(10, 600))


@given(
    seed=st.integers(0, 999),
    clients=st.integers(1, 12),
    alpha=st.sampled_from([1e-3, 0.1, 1.0, 50.0]),
)
def test_lifting_to_one_keeps_the_classes(seed: int, clients: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(clients, 60, 4) * (rng.random(4) < 0.8)
    expected = rng.dirichlet(np.full(clients, alpha), 4).T * sizes
    lifted = at_least_one("x", expected, sizes)
    assert lifted.sum(axis=0) == pytest.approx(sizes)
    assert lifted[:, sizes > 0].min(initial=1.0) >= 1 - 1e-9
    assert round_columns(lifted, sizes)[:, sizes > 0].min(initial=1) >= 1
