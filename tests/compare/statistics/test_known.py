"""Mixtures of Student's distributions: intervals, equivalence and the least detectable mean."""

import numpy as np
import pytest
from scipy import stats

from unalike.compare.statistics.known import ALPHA, Known


def student(mean, scale, df, floor=0.0):
    return Known(*(np.array(a, float) for a in (mean, [1.0], [scale], [df], floor)))


MIXED = Known(
    np.array(1.0), np.array([0.3, 0.7]), np.array([0.2, 0.5]), np.array([3.0, 11.0]), np.array(0.0)
)


def test_p_of_a_mixture_is_the_mean_of_its_components():
    by_hand = 0.3 * 2 * stats.t.sf(1 / 0.2, 3) + 0.7 * 2 * stats.t.sf(1 / 0.5, 11)
    assert MIXED.p() == pytest.approx(by_hand)


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 8, 0.05 / 72])
def test_the_interval_ends_where_p_is_alpha(alpha):
    h = MIXED.half(alpha)
    ends = Known(h, MIXED.weight, MIXED.scale, MIXED.df, MIXED.floor)
    assert ends.p() == pytest.approx(alpha, rel=1e-9)
    assert student(1.0, 0.4, 4).half(alpha) == pytest.approx(0.4 * stats.t.ppf(1 - alpha / 2, 4))


def test_p_is_never_below_its_floor():
    assert student(9.0, 0.1, 4, floor=0.3).p() == 0.3


@pytest.mark.parametrize("mean", [-0.3, 0.0, 0.2, 0.6])
def test_equivalence_is_two_one_sided_tests(mean):
    d = mean + np.array([-0.2, -0.1, 0.0, 0.1, 0.2])
    lower = stats.ttest_1samp(d, -0.5, alternative="greater").pvalue
    upper = stats.ttest_1samp(d, 0.5, alternative="less").pvalue
    found = student(mean, d.std(ddof=1) / 5**0.5, 4)
    assert found.apart(0.5) == pytest.approx(max(lower, upper))


def test_equivalence_at_the_margin_is_a_coin_toss_and_certain_without_spread():
    assert student(0.5, 0.1, 4).apart(0.5) == pytest.approx(0.5)
    assert student(0.0, 0.0, 4).apart(0.5) == 0.0
    assert student(0.6, 0.0, 4).apart(0.5) == 1.0


@pytest.mark.parametrize("n", [3, 5, 10, 20])
@pytest.mark.parametrize("tests", [1, 8])
def test_the_least_detectable_mean_is_found_in_80_of_100_cases(n, tests):
    found = float(student(0.0, n**-0.5, n - 1).detectable(ALPHA / tests))
    critical = stats.t.ppf(1 - ALPHA / tests / 2, n - 1)
    assert stats.nct.sf(critical, n - 1, found * n**0.5) == pytest.approx(0.8, abs=1e-6)


def test_a_mixture_detects_as_its_components_do_between_them():
    parts = [float(student(0.0, s, v).detectable()) for s, v in ((0.2, 3), (0.5, 11))]
    assert parts[0] < MIXED.detectable() < parts[1]
    twice = Known(np.array(0.0), np.full(2, 0.5), np.full(2, 0.5), np.full(2, 11.0), np.array(0.0))
    assert twice.detectable() == pytest.approx(parts[1], rel=1e-6)
