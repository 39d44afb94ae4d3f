"""One comparison of two methods, against scipy and against numbers worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unalike.compare.statistics.differences import Design, Values, least_p
from unalike.compare.statistics.known import ALPHA
from unalike.compare.statistics.paired import Paired, outcome, paired
from unalike.compare.statistics.reuse import Reuse
from unalike.compare.statistics.summary import summarise

A = [0.912, 0.874, 0.931, 0.902, 0.887]
B = [0.905, 0.861, 0.934, 0.880, 0.871]
numbers = st.lists(st.floats(-10, 10, allow_nan=False, width=32), min_size=3, max_size=8)


def p_values(d, test):
    """Two-sided, along the last axis, at once."""
    x = np.stack([np.zeros_like(d), d], -2)[..., None, :, :]
    return Values(x, Design(test)).against(0).known.p()[..., 0, 1]


def test_summary_is_students_interval():
    found = summarise(A)
    mean, se = np.mean(A), stats.sem(A)
    assert found.mean == pytest.approx(mean)
    assert found.std == pytest.approx(np.std(A, ddof=1))
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 4, mean, se))


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


def test_two_methods_are_too_few_to_moderate():
    assert paired(A, B, "moderated") == paired(A, B, "t")


def test_hall_by_hand():
    # d = 0, 0, 3: mean 1, s = sqrt(3), u = 1 / sqrt(3), g = 2 / 2^1.5 = 1 / sqrt(2).
    u, g = 3**-0.5, 2**-0.5
    t = math.sqrt(3) * (u + g * u**2 / 3 + g**2 * u**3 / 27 + g / 18)
    assert t > 1  # a long tail on the side of the mean makes it no surer: the larger p counts
    assert paired([0, 0, 3], [0, 0, 0], "hall").p == pytest.approx(1 - 1 / math.sqrt(3))
    # d = 0, 3, 3: the tail is on the other side, u = 2 / sqrt(3) and g = -1 / sqrt(2).
    u, g = 2 * 3**-0.5, -(2**-0.5)
    t = math.sqrt(3) * (u + g * u**2 / 3 + g**2 * u**3 / 27 + g / 18)
    assert paired([0, 3, 3], [0, 0, 0], "hall").p == pytest.approx(1 - t / math.sqrt(2 + t * t))


@given(numbers)
def test_hall_never_gives_less_than_student_and_the_sign_does_not_matter(values):
    zeros = np.zeros(len(values))
    p = paired(values, zeros, "hall").p
    assert paired(values, zeros).p <= p <= 1
    assert paired(zeros, values, "hall").p == pytest.approx(p)


def test_without_skew_hall_is_student():
    d, zeros = [0.1, 0.2, 0.3, 0.4, 0.5], [0.0] * 5
    assert paired(d, zeros, "hall").p == pytest.approx(paired(d, zeros).p)


@given(numbers)
def test_paired_tests_are_scipys_on_any_numbers(values):
    zeros = np.zeros(len(values))
    if np.ptp(values) > 1e-3:
        theirs = stats.ttest_rel(values, zeros).pvalue
        assert paired(values, zeros).p == pytest.approx(theirs, rel=1e-9, abs=1e-12)
        both = max(theirs, stats.wilcoxon(values).pvalue)
        assert paired(values, zeros, "wilcoxon").p == pytest.approx(both)


def test_wilcoxon_is_scipys_with_and_without_ties():
    assert paired(A, B, "wilcoxon").p == pytest.approx(stats.wilcoxon(A, B).pvalue)
    ties = [1.0, 1.0, 2.0, 0.0, -1.0, 3.0] * 4
    assert paired(ties, [0.0] * 24, "wilcoxon").p == pytest.approx(stats.wilcoxon(ties).pvalue)


def test_equal_differences_count_by_their_signs_only():
    assert paired([0.5] * 4, [0.5] * 4).p == 1.0
    assert paired([0.6] * 4, [0.5] * 4).p == 2**-3
    assert paired([0.6] * 4, [0.5] * 4).effect is None
    assert paired([0.5] * 4, [0.5] * 4, "wilcoxon").p == 1.0


def test_seeds_that_all_say_the_same_leave_an_interval_unknown():
    """Small test sets make accuracies coarse: three equal ones are no certainty."""
    assert summarise([0.8] * 3) == (3, 0.8, 0.0, None, None)
    assert summarise([0.1 + 0.2, 0.3, 0.3])[3:] == (None, None)  # equal but for rounding
    found = paired([0.6] * 4, [0.5] * 4)
    assert (found.low, found.high) == (None, None)
    assert paired([0.5] * 4, [0.5] * 4)[2:4] == (0.0, 0.0)  # the same runs
    shared = Reuse(fixed=100)
    assert summarise([0.8] * 3, shared).low < 0.8 < summarise([0.8] * 3, shared).high
    assert paired([0.6] * 4, [0.5] * 4, reuse=shared).low < 0.1


def test_one_seed_gives_no_test():
    assert summarise([0.5]) == (1, 0.5, None, None, None)
    assert paired([0.5], [0.25]) == (1, 0.25, None, None, None, None)
    assert outcome(paired([0.5], [0.25])) is None


@pytest.mark.parametrize(
    ("mean", "p", "higher", "expected"),
    [
        (0.2, 0.01, True, "win"),
        (0.2, 0.01, False, "loss"),
        (-0.2, 0.01, True, "loss"),
        (-0.2, 0.01, False, "win"),
        (0.2, 0.05, True, "open"),
    ],
)
def test_nothing_is_shown_unless_p_is_small(mean, p, higher, expected):
    assert outcome(Paired(5, mean, mean - 0.1, mean + 0.1, p, 1.0), higher) == expected


def test_least_p_of_wilcoxon_is_what_scipy_gives():
    for n in range(3, 8):
        assert least_p(n, "wilcoxon") == pytest.approx(stats.wilcoxon(np.arange(1, n + 1)).pvalue)


def test_nadeau_and_bengio_by_hand():
    """Variance s^2 (1 / n + tested / trained), Student's distribution with n - 1 degrees."""
    d = np.subtract(A, B)
    t = d.mean() / math.sqrt(d.var(ddof=1) * (1 / 5 + 2 / 7))
    found = paired(A, B, reuse=Reuse(2 / 7))
    assert found.p == pytest.approx(2 * stats.t.sf(t, 4))
    half = stats.t.ppf(0.975, 4) * d.mean() / t
    assert (found.low, found.high) == pytest.approx((d.mean() - half, d.mean() + half))
    assert paired(A, B, "hall", Reuse(2 / 7)).p >= found.p
    mine = summarise(A, Reuse(2 / 7))
    assert mine.high - mine.mean == pytest.approx(
        stats.t.ppf(0.975, 4) * np.std(A, ddof=1) * math.sqrt(1 / 5 + 2 / 7)
    )


def test_rows_of_one_test_set_by_hand():
    """Shares a and b of N rows: their difference varies by (a (1 - a) + b (1 - b)) / N."""
    a, b, d = np.mean(A), np.mean(B), np.subtract(A, B)
    variance = d.var(ddof=1) / 5 + (a * (1 - a) + b * (1 - b)) / 200
    found = paired(A, B, reuse=Reuse(fixed=200))
    assert found.p == pytest.approx(2 * stats.t.sf(d.mean() / math.sqrt(variance), 4))
    alone = summarise(A, Reuse(fixed=200))
    spread = np.var(A, ddof=1) / 5 + a * (1 - a) / 200
    assert alone.high - alone.mean == pytest.approx(stats.t.ppf(0.975, 4) * math.sqrt(spread))


def test_the_rows_variance_is_the_largest_that_agreeing_methods_have():
    """Two rules that err on the same hard rows disagree less than independent ones."""
    draw = np.random.default_rng(0)
    easy = draw.beta(3, 1, 4000)
    one, two = draw.random((2, 4000)) < easy
    exact = np.var(one.astype(float) - two) / 4000
    bound = float(Reuse(fixed=4000).rows(one.mean(), two.mean()))
    assert exact < bound < 2 * exact


NULLS = {
    "normal": lambda draw, shape: draw.normal(size=shape),
    "coarse": lambda draw, shape: np.round(draw.normal(size=shape)),
    "heavy": lambda draw, shape: draw.standard_t(3, shape),
    "bounded": lambda draw, shape: draw.uniform(-1, 1, shape),
    "skewed": lambda draw, shape: draw.lognormal(0, 0.5, shape) - np.exp(1 / 8),
}


def alarms(null, n, test):
    """The share of comparisons without a difference that find one. A test at five per cent errs in
    more than six of a given hundred with probability 0.23, so it is taken over 20,000.
    """
    return np.mean(p_values(NULLS[null](np.random.default_rng(n), (20_000, n)), test) < ALPHA)


@pytest.mark.parametrize("n", [3, 5, 10, 20])
@pytest.mark.parametrize("null", ["normal", "coarse", "heavy"])
def test_where_there_is_no_difference_94_in_100_comparisons_find_none(null, n):
    assert alarms(null, n, "t") <= 0.06


@pytest.mark.parametrize("n", [3, 5, 10, 20])
@pytest.mark.parametrize("null", NULLS)
def test_with_the_guard_not_even_if_differences_are_skewed(null, n):
    assert alarms(null, n, "hall") <= 0.06


def test_what_the_guard_is_for():
    assert alarms("skewed", 5, "t") > 0.07
    assert alarms("normal", 5, "t") == pytest.approx(ALPHA, abs=0.005)


def test_the_guard_is_not_blind():
    d = np.random.default_rng(5).normal(2, 1, (20_000, 5))
    assert np.mean(p_values(d, "hall") < ALPHA) > 0.7


def test_what_is_judged_at_once_is_judged_as_one_by_one():
    d = np.random.default_rng(1).normal(size=(20, 5))
    d[0], d[1] = 0.0, 0.25
    for test in ("hall", "t"):
        assert p_values(d, test).tolist() == pytest.approx(
            [paired(row, np.zeros(5), test).p for row in d], rel=1e-12
        )


def test_a_real_difference_is_found():
    draw = np.random.default_rng(5)
    shared = draw.normal(0.9, 0.05, 5)  # seeds differ more than methods do
    mine, theirs = shared + 0.02 + draw.normal(0, 0.002, 5), shared
    assert paired(mine, theirs).p < 0.001
    assert stats.ttest_ind(mine, theirs).pvalue > 0.3  # what pairing is for


def test_an_interval_of_another_level_is_scipys_too():
    """What is beside a corrected p has the level of its test."""
    theirs = stats.ttest_rel(A, B).confidence_interval(1 - ALPHA / 4)
    found = paired(A, B, alpha=ALPHA / 4)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.p == paired(A, B).p
