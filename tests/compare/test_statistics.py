"""Intervals, tests and corrections against scipy and against numbers worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unalike.compare.statistics import (
    ALPHA,
    Paired,
    holm,
    least_p,
    outcome,
    paired,
    summarise,
)

A = [0.912, 0.874, 0.931, 0.902, 0.887]
B = [0.905, 0.861, 0.934, 0.880, 0.871]
numbers = st.lists(st.floats(-10, 10, allow_nan=False, width=32), min_size=3, max_size=8)


def test_summary_is_students_interval():
    found = summarise(A)
    mean, se = np.mean(A), stats.sem(A)
    assert found.mean == pytest.approx(mean)
    assert found.std == pytest.approx(np.std(A, ddof=1))
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 4, mean, se))


def test_bootstrap_interval_is_scipys_percentile_interval():
    found = summarise(A, "bootstrap")
    theirs = stats.bootstrap(
        (A,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx(tuple(theirs), abs=2e-3)
    assert summarise(A, "bootstrap") == found  # the same numbers, the same interval


def test_paired_t_is_scipys():
    found, theirs = paired(A, B), stats.ttest_rel(A, B)
    interval = theirs.confidence_interval(0.95)
    assert found.p == pytest.approx(theirs.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    d = np.subtract(A, B)
    assert found.effect == pytest.approx(d.mean() / d.std(ddof=1))
    assert found.mean == pytest.approx(0.011)


def test_paired_t_by_hand():
    # d = 1, 2, 3: mean 2, s = 1, t = 2 sqrt(3) with two degrees of freedom.
    t = 2 * math.sqrt(3)
    assert paired([1, 2, 3], [0, 0, 0]).p == pytest.approx(1 - t / math.sqrt(2 + t * t))


@given(numbers)
def test_paired_tests_are_scipys_on_any_numbers(values):
    zeros = np.zeros(len(values))
    if np.ptp(values) > 1e-3:
        theirs = stats.ttest_rel(values, zeros).pvalue
        assert paired(values, zeros).p == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    if np.abs(values).max() > 1e-3:
        theirs = stats.wilcoxon(values).pvalue
        assert paired(values, zeros, "wilcoxon").p == pytest.approx(theirs)


def test_wilcoxon_is_scipys_with_and_without_ties():
    assert paired(A, B, "wilcoxon").p == pytest.approx(stats.wilcoxon(A, B).pvalue)
    ties = [1.0, 1.0, 2.0, 0.0, -1.0, 3.0] * 4
    assert paired(ties, [0.0] * 24, "wilcoxon").p == pytest.approx(stats.wilcoxon(ties).pvalue)


def test_equal_differences_count_by_their_signs_only():
    assert paired([0.5] * 4, [0.5] * 4).p == 1.0
    assert paired([0.6] * 4, [0.5] * 4).p == 2**-3
    assert paired([0.6] * 4, [0.5] * 4).effect is None
    assert paired([0.5] * 4, [0.5] * 4, "wilcoxon").p == 1.0


def test_one_seed_gives_no_test():
    assert summarise([0.5]) == (1, 0.5, None, None, None)
    assert paired([0.5], [0.25]) == (1, 0.25, None, None, None, None)
    assert outcome(paired([0.5], [0.25])) is None


def test_holm_by_hand():
    # 0.01 x 4 = 0.04; 0.02 x 3 = 0.06; 0.03 x 2 = 0.06; 0.5 x 1.
    assert holm([0.02, 0.5, 0.01, 0.03]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([None, 0.01]) == [None, 0.01]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_is_monotone_and_never_below_the_raw_values(p):
    adjusted = holm(p)
    assert all(a >= raw for a, raw in zip(adjusted, p, strict=True))
    assert all(0 <= a <= 1 for a in adjusted)
    order = np.argsort(p, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()
    assert min(adjusted) == pytest.approx(min(1.0, min(p) * len(p)))


@pytest.mark.parametrize(
    ("low", "mean", "high", "higher", "expected"),
    [
        (0.1, 0.2, 0.3, True, "win"),
        (0.1, 0.2, 0.3, False, "loss"),
        (-0.3, -0.2, -0.1, True, "loss"),
        (-0.3, -0.2, -0.1, False, "win"),
        (-0.1, 0.1, 0.3, True, "tie"),
        (0.0, 0.1, 0.2, True, "tie"),
    ],
)
def test_outcome_is_read_off_the_interval(low, mean, high, higher, expected):
    assert outcome(Paired(5, mean, low, high, 0.5, 1.0), higher) == expected


def test_least_p_of_wilcoxon_is_what_scipy_gives():
    for n in range(3, 8):
        assert least_p(n, "wilcoxon") == pytest.approx(stats.wilcoxon(np.arange(1, n + 1)).pvalue)


def test_a_method_does_not_differ_from_itself():
    """Forty times one hundred comparisons of equals, of five seeds each: 94 in 100 find nothing.

    A test at five per cent errs in five of a hundred on average, and in more than six of a given
    hundred with probability 0.23; so the share is taken over many hundreds.
    """
    draw = np.random.default_rng(2024)
    seeds = draw.normal(0, 0.05, (4000, 1, 5))  # what a seed does to both alike
    runs = draw.normal(0.9, 0.02, (4000, 2, 5)) + seeds
    alarms = np.mean([paired(a, b).p < ALPHA for a, b in runs])
    assert 1 - alarms >= 0.94
    assert alarms == pytest.approx(ALPHA, abs=0.01)  # and it is not blind either


def test_a_real_difference_is_found():
    draw = np.random.default_rng(5)
    shared = draw.normal(0.9, 0.05, 5)  # seeds differ more than methods do
    mine, theirs = shared + 0.02 + draw.normal(0, 0.002, 5), shared
    assert paired(mine, theirs).p < 0.001
    assert stats.ttest_ind(mine, theirs).pvalue > 0.3  # what pairing is for
