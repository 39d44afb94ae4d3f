"""Friedman's test and the critical difference, against all orders and the tables in print."""

import itertools

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


def exactly(ranked):
    """The share of all orders within conditions that give means as unlike, by listing them."""
    unlike = {}
    sums = {(0.0,) * len(ranked[0]): 1}
    for row in ranked:  # condition by condition: sums of ranks, and in how many ways each comes up
        longer = {}
        for before, ways in sums.items():
            for order in itertools.permutations(row):
                after = tuple(x + y for x, y in zip(before, order, strict=True))
                longer[after] = longer.get(after, 0) + ways
        sums = longer
    for total, ways in sums.items():
        size = round(np.var(total), 9)
        unlike[size] = unlike.get(size, 0) + ways
    own = round(np.var(np.sum(ranked, 0)), 9)
    return sum(w for size, w in unlike.items() if size >= own) / sum(unlike.values())


@pytest.mark.parametrize("step", [0.001, 1.0])  # with and without ties
@pytest.mark.parametrize(("n", "k"), [(5, 2), (7, 2), (9, 2), (5, 3), (6, 3), (5, 4)])
def test_friedmans_p_is_that_of_all_orders(n, k, step):
    for seed in range(3):
        scores = np.round(np.random.default_rng(seed).normal(size=(n, k)) / step) * step
        scores[:, 0] += 1
        found = ranks(scores)
        ranked = stats.rankdata(-scores, axis=1)
        assert found.mean == pytest.approx(ranked.mean(0))
        assert ranks(-scores, higher=False).mean == pytest.approx(found.mean)
        p = exactly(ranked)
        assert found.p == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 9999) + 2e-4)


def test_two_methods_are_judged_by_their_signs():
    """Ahead on all of five conditions has a chance of 2 / 2^5, however far ahead."""
    scores = np.stack([np.arange(5) + 10.0, np.zeros(5)], 1)
    assert ranks(scores).p == pytest.approx(stats.binomtest(5, 5).pvalue, abs=0.01)
    scores[:1] = scores[:1, ::-1]
    assert ranks(scores).p == pytest.approx(stats.binomtest(4, 5).pvalue, abs=0.02)


def test_with_many_conditions_it_is_the_p_of_scipys_friedman_test():
    scores = np.random.default_rng(3).normal([0.4, 0, 0, 0], size=(60, 4))
    assert ranks(scores).p == pytest.approx(stats.friedmanchisquare(*scores.T).pvalue, abs=0.02)
    assert ranks(scores).p == ranks(scores).p  # the draws are the same every time


def test_the_same_everywhere_has_no_ranks_and_always_the_same_order_is_as_rare_as_it_is():
    assert ranks(np.ones((5, 3))).p == 1.0
    assert ranks(np.tile([3.0, 2.0, 1.0], (5, 1))).p == pytest.approx(6.0**-4, abs=1e-3)


def test_groups_that_nobody_leaves():
    found = Ranks(np.array([1.0, 1.5, 4.0, 4.4]), 0.001, 1.0)
    assert found.groups() == [[0, 1], [2, 3]]
    assert Ranks(np.array([1.0, 2.0]), 0.001, 0.5).groups() == []
    assert Ranks(np.array([2.0, 1.0, 1.5]), 0.5, 3.0).groups() == [[1, 2, 0]]


def test_equal_methods_are_rarely_apart():
    draw = np.random.default_rng(1).normal(size=(400, 5, 9))
    found = [ranks(scores) for scores in draw]
    assert np.mean([np.ptp(f.mean) >= f.apart for f in found]) <= 0.06
