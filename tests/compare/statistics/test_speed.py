"""How soon a target is reached, as ratios to the baseline."""

import numpy as np
import pytest
from scipy import stats

from unalike.compare.statistics.claims import claims
from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.speed import speeds, target

FAST = np.array([[[20.0, 22, 18, 24, 20], [10.0, 12, 9, 13, 11], [30.0, 36, 27, 40, 29]]])
ALL = np.ones_like(FAST, bool)


def test_a_ratio_is_the_geometric_mean_and_its_test_that_of_logarithms():
    found = speeds(FAST, ALL, 0, Design("t"))
    logs = np.log(FAST[0, 1] / FAST[0, 0])
    assert found.ratio[0, 1] == pytest.approx(stats.gmean(FAST[0, 1] / FAST[0, 0]))
    raw = [stats.ttest_1samp(np.log(FAST[0, i] / FAST[0, 0]), 0).pvalue for i in (1, 2)]
    same = claims(np.log(FAST), 0, higher=False, design=Design("t"))
    assert same.p[0, 1:] == pytest.approx(raw)
    assert found.p[0, 1:] == pytest.approx(same.corrected.p[0, 1:])
    assert found.low[0, 1] < np.exp(logs.mean()) < found.high[0, 1] < 1
    assert found.outcome.tolist() == [["", "win", "loss"]]


def test_nobody_is_faster_who_missed_the_target_once():
    reached = ALL.copy()
    reached[0, 1, 3] = False
    found = speeds(FAST, reached, 0)
    assert found.outcome.tolist() == [["", "open", "loss"]]
    assert np.isnan(found.p[0, 1]), "a small p beside 'open' would contradict it"
    assert found.p[0, 2] == speeds(FAST, ALL, 0).p[0, 2]


def test_nobody_is_slower_than_a_baseline_that_missed_it():
    reached = ALL.copy()
    reached[0, 0, 3] = False
    assert speeds(FAST, reached, 0).outcome.tolist() == [["", "win", "open"]]


def test_who_never_reached_it_is_not_equal_to_another_who_did_not():
    spent = np.full((1, 2, 5), 30.0)
    assert speeds(spent, np.zeros_like(spent, bool), 0).outcome[0, 1] == "open"
    assert speeds(spent, np.ones_like(spent, bool), 0).outcome[0, 1] == "equal"


def test_a_hundredth_more_is_as_good_as_nothing():
    """FedProx sends its mu: 20 bytes in 100,000, under every seed, so the signs are sure."""
    spent = np.full((1, 3, 10), 100_000.0)
    spent[0, 1] += 20
    spent[0, 2] *= 1.02
    found = speeds(spent, np.ones_like(spent, bool), 0)
    assert found.outcome.tolist() == [["", "equal", "loss"]]
    assert found.ratio[0, 1] == pytest.approx(1.0002)
    missed = np.ones_like(spent, bool)
    missed[0, 1, 0] = False
    assert speeds(spent, missed, 0).outcome[0, 1] == "open"


def test_over_several_conditions_the_target_must_be_reached_on_all():
    spent, reached = np.concatenate([FAST, 1.1 * FAST]), np.concatenate([ALL, ALL])
    reached[1, 1, 0] = False
    assert speeds(spent, reached, 0).outcome[:, 1].tolist() == ["win", "open", "open"]


def test_the_target_is_a_share_of_the_best():
    assert target(0.9) == pytest.approx(0.855)
    assert target(0.19, higher=False) == pytest.approx(0.2)


@pytest.mark.parametrize("best", [0.8, 0.0, -0.5])
def test_who_set_the_target_has_reached_it(best):
    """R² is below zero where a model does worse than the mean; 95 % of that would be more."""
    assert target(best) <= best
    assert target(best, higher=False) >= best


def test_an_interval_is_open_towards_what_missed_the_target():
    """The true ratio is beyond what was spent: as much as one likes above it, or below."""
    method, baseline = ALL.copy(), ALL.copy()
    method[0, 1, 3] = baseline[0, 0, 3] = False
    whole, found = speeds(FAST, ALL, 0), speeds(FAST, method, 0)
    assert (found.low[0, 1], np.isnan(found.high[0, 1])) == (whole.low[0, 1], True)
    assert found.high[0, 2] == whole.high[0, 2]
    found = speeds(FAST, baseline, 0)
    assert np.isnan(found.low[0, 1:]).all()
    assert found.high[0, 1:].tolist() == whole.high[0, 1:].tolist()
    found = speeds(FAST, method & baseline, 0)
    assert np.isnan([found.low[0, 1], found.high[0, 1]]).all()
