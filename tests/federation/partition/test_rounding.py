"""Whole numbers from expected counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.federation.partition.mixes import table_of_mixes
from unalike.federation.partition.rounding import round_columns, settle_rows
from unalike.federation.partition.sizes import apportion, even_sizes

seeds = st.integers(0, 10_000)


@given(seed=seeds, clients=st.integers(1, 30), classes=st.integers(1, 8))
def test_columns_are_exact_and_entries_within_one(seed: int, clients: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    class_sizes = rng.integers(0, 50, classes)
    expected = rng.dirichlet(np.full(clients, 0.3), classes).T * class_sizes
    counts = round_columns(expected, class_sizes)
    assert np.array_equal(counts.sum(axis=0), class_sizes)
    assert np.abs(counts - expected).max() < 1 + 1e-6
    assert counts.min() >= 0


def test_equal_remainders_leave_client_sizes_even() -> None:
    expected = np.full((7, 20), 10 / 7)
    sizes = round_columns(expected, np.full(20, 10)).sum(axis=1)
    assert np.ptp(sizes) <= 1


def test_whole_expectations_are_kept() -> None:
    expected = np.array([[3.0, 0.0], [0.9999999999999, 5.0]])
    assert round_columns(expected, np.array([4, 5])).tolist() == [[3, 0], [1, 5]]


def test_largest_remainders_win() -> None:
    assert apportion(10, np.array([0.14, 0.26, 0.6])).tolist() == [1, 3, 6]
    assert apportion(100, np.array([0.333, 0.333, 0.334])).tolist() == [33, 33, 34]


@given(total=st.integers(0, 1000), clients=st.integers(1, 50))
def test_even_sizes_differ_by_at_most_one(total: int, clients: int) -> None:
    sizes = even_sizes(total, clients)
    assert sizes.sum() == total
    assert np.ptp(sizes) <= 1


def test_settling_moves_within_classes_only() -> None:
    expected = np.array([[2.5, 2.5], [2.5, 2.5]])
    counts = settle_rows(np.array([[3, 3], [2, 2]]), expected, np.array([5, 5]))
    assert counts.sum(axis=0).tolist() == [5, 5]
    assert counts.sum(axis=1).tolist() == [5, 5]


def test_settling_avoids_classes_the_taker_should_not_have() -> None:
    expected = np.array([[1.5, 3.5], [0.0, 3.0]])
    counts = settle_rows(np.array([[2, 4], [0, 2]]), expected, np.array([5, 3]))
    assert counts.tolist() == [[2, 3], [0, 3]]


@given(seed=seeds, alpha=st.sampled_from([1e-3, 0.1, 1.0, 50.0]), clients=st.integers(1, 20))
def test_both_sums_of_a_table_of_mixes_are_exact(seed: int, alpha: float, clients: int) -> None:
    rng = np.random.default_rng(seed)
    class_sizes = rng.integers(1, 40, 5)
    sizes = apportion(int(class_sizes.sum()), rng.random(clients) + 0.01)
    counts = table_of_mixes(rng.dirichlet(np.full(5, alpha), clients), sizes, class_sizes)
    assert counts.min() >= 0
    assert np.array_equal(counts.sum(axis=0), class_sizes)
    assert np.array_equal(counts.sum(axis=1), sizes)


def test_mixes_that_fit_are_kept() -> None:
    mixes = np.array([[0.8, 0.2], [0.2, 0.8]])
    counts = table_of_mixes(mixes, np.array([50, 50]), np.array([50, 50]))
    assert counts.tolist() == [[40, 10], [10, 40]]


def test_mixes_that_do_not_fit_keep_their_odds_ratio() -> None:
    mixes = np.array([[0.9, 0.1], [0.6, 0.4]])
    counts = table_of_mixes(mixes, np.array([50_000, 50_000]), np.array([50_000, 50_000]))
    ratio = counts[0, 0] * counts[1, 1] / (counts[0, 1] * counts[1, 0])
    assert ratio == pytest.approx(0.9 * 0.4 / (0.1 * 0.6), rel=1e-3)


def test_classes_nobody_wants_are_spread() -> None:
    mixes = np.array([[1.0, 0.0], [1.0, 0.0]])
    counts = table_of_mixes(mixes, np.array([10, 10]), np.array([10, 10]))
    assert counts.tolist() == [[5, 5], [5, 5]]
