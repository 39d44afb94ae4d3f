"""Friedman's test and the critical difference, against scipy and the tables in print."""

import numpy as np
import pytest
from scipy import stats

from unalike.compare.statistics.ranks import Ranks, critical_difference, ranks

# Demšar (2006), table 5: critical values of Nemenyi's test at 0.05 for 2 to 10 classifiers.
PRINTED = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]


@pytest.mark.parametrize(("k", "q"), list(enumerate(PRINTED, start=2)))
def test_critical_differences_are_those_in_print(k, q):
    assert critical_difference(k, 1) / np.sqrt(k * (k + 1) / 6) == pytest.approx(q, abs=1e-3)


def test_demsars_example():
    """Four variants of C4.5 on 14 datasets: chi^2 = 9.28, F = 3.69, CD = 1.25."""
    mean, n, k = np.array([3.143, 2.000, 2.893, 1.964]), 14, 4
    chi2 = 12 * n / (k * (k + 1)) * ((mean - 2.5) ** 2).sum()
    assert chi2 == pytest.approx(9.28, abs=0.01)
    assert (n - 1) * chi2 / (n * (k - 1) - chi2) == pytest.approx(3.69, abs=0.01)
    assert critical_difference(k, n) == pytest.approx(1.25, abs=0.005)


@pytest.mark.parametrize("step", [0.001, 1.0])  # with and without ties
def test_friedman_is_scipys_with_iman_and_davenports_distribution(step):
    scores = np.round(np.random.default_rng(0).normal(size=(7, 4)) / step) * step
    scores[:, 0] += 1
    found = ranks(scores)
    chi2 = stats.friedmanchisquare(*scores.T).statistic
    f = 6 * chi2 / (7 * 3 - chi2)
    assert found.p == pytest.approx(stats.f.sf(f, 3, 18))
    assert found.mean == pytest.approx(stats.rankdata(-scores, axis=1).mean(0))
    assert ranks(-scores, higher=False).mean == pytest.approx(found.mean)


def test_the_same_everywhere_has_no_ranks_and_always_the_same_order_the_surest():
    assert ranks(np.ones((5, 3))).p == 1.0
    assert ranks(np.tile([3.0, 2.0, 1.0], (5, 1))).p == 0.0


def test_groups_that_nobody_leaves():
    found = Ranks(np.array([1.0, 1.5, 4.0, 4.4]), 0.001, 1.0)
    assert found.groups() == [[0, 1], [2, 3]]
    assert Ranks(np.array([1.0, 2.0]), 0.001, 0.5).groups() == []
    assert Ranks(np.array([2.0, 1.0, 1.5]), 0.5, 3.0).groups() == [[1, 2, 0]]


def test_equal_methods_are_rarely_apart():
    draw = np.random.default_rng(1).normal(size=(400, 5, 9))
    found = [ranks(scores) for scores in draw]
    assert np.mean([np.ptp(f.mean) >= f.apart for f in found]) <= 0.06
