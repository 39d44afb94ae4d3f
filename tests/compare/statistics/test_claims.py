"""Claims taken together: corrections, the best, equal and open, all conditions at once."""

import numpy as np
import pytest
from scipy import stats

from unalike.compare.statistics.claims import claims
from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.family import holm
from unalike.compare.statistics.known import ALPHA
from unalike.compare.statistics.reuse import Reuse


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def student(conditions, *reuse):
    return Design("t", reuse or (Reuse(),) * conditions)


def together(differences, leaders):
    """Holm's correction with a tenth of alpha for leaders, one p after the other."""
    weights = [0.9 / len(differences)] * len(differences) + [0.1 / len(leaders)] * len(leaders)
    p, out, least = [*differences, *leaders], {}, 0.0
    for i in sorted(range(len(p)), key=lambda i: p[i] / weights[i]):
        left = sum(w for j, w in enumerate(weights) if j not in out)
        least = out[i] = min(1.0, max(least, p[i] * left / weights[i]))
    return [out[i] for i in range(len(differences))], [
        out[i] for i in range(len(differences), len(p))
    ]


def hardest_rival(row, leader):
    others = (i for i in range(len(row)) if i != leader)
    return max(stats.ttest_rel(row[leader], row[i]).pvalue for i in others)


def test_students_family_is_scipys_with_holm_over_differences_and_leaders():
    x = noise(2, 4, 6)
    found = claims(x, 1, design=student(2))
    rows = [*x, x.mean(0)]
    raw = [[stats.ttest_rel(r[i], r[1]).pvalue for i in (0, 2, 3)] for r in rows]
    assert found.p[:, [0, 2, 3]] == pytest.approx(np.array(raw))
    best = [hardest_rival(r, r.mean(-1).argmax()) for r in rows]
    differences, leaders = together(np.ravel(raw), best)
    assert found.corrected.p[:, [0, 2, 3]].ravel() == pytest.approx(differences)
    assert found.best.p == pytest.approx(leaders)
    assert found.tests == 9
    assert np.isnan(found.p[:, 1]).all()
    assert (found.outcome[:, 1] == "").all()


def test_one_condition_has_no_row_over_all():
    assert claims(noise(1, 3, 5), 0).p.shape == (1, 3)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("test", ["t", "moderated"])
def test_corrected_intervals_hold_zero_where_nothing_is_shown(seed, test):
    x = noise(2, 5, 5, seed=seed)
    x[:, 3] += 2.5
    found = claims(x, 0, design=Design(test, (Reuse(0.1),) * 2))
    low, high = (end[:, 1:] for end in found.corrected_interval())
    shown = np.isin(found.outcome, ["win", "loss"])[:, 1:]
    assert (((low > 0) | (high < 0)) == shown).all()
    assert (found.corrected.times[:, 1:] >= 1 - 1e-9).all()


def test_less_may_be_better():
    x = noise(1, 3, 5)
    x[:, 2] += 20
    assert claims(x, 0).outcome[0, 2] == "win"
    assert claims(x, 0, higher=False).outcome[0, 2] == "loss"
    assert claims(x, 0, higher=False).best.leader[0] != 2


def test_the_best_needs_no_correction_over_its_rivals():
    """The largest p of the leader's differences counts, as one claim beside the differences."""
    x = noise(1, 5, 6, seed=3)
    x[0, 4] += 3
    found = claims(x, 0, design=student(1))
    raw = [stats.ttest_rel(x[0, 4], x[0, i]).pvalue for i in range(4)]
    _, (best,) = together(
        [stats.ttest_rel(x[0, 0], x[0, i]).pvalue for i in range(1, 5)], [max(raw)]
    )
    assert found.best.leader[0] == 4
    assert found.best.p[0] == pytest.approx(best)
    assert found.best.rivals[0, :4] == pytest.approx(np.minimum(np.array(raw) * best / max(raw), 1))


def test_leaders_of_many_sure_conditions_are_all_claimed():
    x = noise(3, 4, 6, seed=4)
    x[:, 3] += 9
    found = claims(x, 0, design=student(3))
    assert found.best.clear.all()
    assert (found.outcome[:, 3] == "win").all()


def test_of_two_methods_the_best_and_the_difference_are_one_claim():
    x = noise(2, 2, 6, seed=6)
    x[:, 1] += 1.5
    found = claims(x, 0, design=student(2))
    raw = [stats.ttest_rel(r[1], r[0]).pvalue for r in (*x, x.mean(0))]
    assert found.best.p == pytest.approx(holm(raw).p)
    assert found.corrected.p[:, 1] == pytest.approx(holm(raw).p)
    swapped = claims(x, 1, design=student(2))
    assert swapped.best.p == pytest.approx(found.best.p)


def test_the_best_is_never_open_against_the_baseline():
    """Sure among the leader's rivals, not among all differences to the baseline: claimed once."""
    x = np.array([0.80, 0.82, 0.79, 0.83, 0.81]) + np.zeros((1, 20, 1))
    x[0, 1] += np.array([0.017, 0.03, 0.049, 0.03, 0.034])
    x[0, 2:] = x[0, 1] - 0.032 + 0.001 * noise(18, 5)
    found = claims(x, 0, design=student(1))
    alone, (best,) = together(found.p[0, 1:], [hardest_rival(x[0], 1)])
    assert best < ALPHA < alone[0]
    assert found.best.leader[0] == 1
    assert found.best.clear[0]
    assert found.outcome[0, 1] == "win"
    assert found.corrected.p[0, 1] == pytest.approx(found.best.p[0])
    low, high = found.corrected_interval()
    assert 0 < low[0, 1] < high[0, 1]


def test_everybody_loses_to_a_baseline_that_is_best():
    x = noise(1, 9, 5, seed=1)
    x[0, 0] += 4.5
    found = claims(x, 0)
    assert found.best.clear[0]
    assert (found.outcome[0, 1:] == "loss").all()


def test_nobody_is_best_while_a_value_is_missing():
    x = noise(1, 3, 5)
    x[0, 2] += 30
    assert claims(x, 0).best.clear[0]
    x[0, 1, 4] = np.nan
    found = claims(x, 0)
    assert found.best.leader[0] == 2
    assert not found.best.clear[0]
    assert found.outcome[0, 2] == "win"  # on the seeds that both have


def test_leaders_are_found_on_the_seeds_that_all_have():
    x = np.array([[[9.0, 9.0, 0.0, 0.0], [np.nan, np.nan, 1.0, 1.1]]])
    assert claims(x, 0, design=student(1)).best.leader[0] == 1


def test_nothing_is_equal_without_a_margin_but_the_same_runs():
    x = noise(1, 3, 20)
    x[0, 1] = x[0, 0]
    assert claims(x, 0).outcome.tolist() == [["", "equal", "open"]]


def test_equal_is_inside_the_margin_and_open_is_not():
    x = np.zeros((1, 3, 10)) + 0.01 * noise(1, 3, 10)
    x[0, 2] += 0.05
    found = claims(x, 0, margin=0.02)
    low, high = found.corrected_interval()
    assert found.outcome.tolist() == [["", "equal", "win"]]
    assert -0.02 <= low[0, 1] < high[0, 1] <= 0.02
    assert claims(x, 0, margin=0.004).outcome[0, 1] == "open"


def test_a_sure_difference_inside_the_margin_does_not_count_and_nobody_is_best():
    x = 0.001 * noise(1, 2, 10)
    x[0, 1] += 0.005
    assert claims(x, 0).outcome[0, 1] == "win"
    assert claims(x, 0).best.clear[0]
    found = claims(x, 0, margin=0.02)
    assert found.outcome[0, 1] == "equal"
    assert not found.best.clear[0]


def test_what_no_number_of_wins_could_show_has_no_least_difference():
    """Six pairs have a p of 2^-5 at best: enough for one difference and not for two."""
    x = np.random.default_rng(0).normal(size=(1, 3, 6))
    three, two = (claims(v, 0, design=Design("wilcoxon")).detectable() for v in (x, x[:, :2]))
    assert np.isnan(three).all()
    assert np.isfinite(two[0, 1])
    assert np.isfinite(claims(x, 0, design=Design("t")).detectable()[0, 1:]).all()


def test_one_seed_shows_nothing():
    found = claims(noise(2, 3, 1), 0)
    assert np.isnan(found.p).all()
    assert (found.outcome == "").all()
    assert not found.best.clear.any()


def test_rows_that_conditions_share_do_not_average_out():
    """Deviations of conditions with the same rows add up, variances of those with others do."""
    x = noise(4, 2, 6, seed=5)
    ratio = Reuse(0.25)
    d = x[:, 1] - x[:, 0]
    mean, s = d.mean(0), d.std(1, ddof=1)
    for sources, kept in (
        ("aaaa", s.sum() ** 2),
        ("aabb", (s[0] + s[1]) ** 2 + (s[2] + s[3]) ** 2),
        ("abca", (s[0] + s[3]) ** 2 + s[1] ** 2 + s[2] ** 2),
        ("abcd", (s**2).sum()),
    ):
        found = claims(x, 0, design=Design("t", (ratio,) * 4, sources))
        variance = mean.var(ddof=1) / 6 + 0.25 * kept / 16
        t = mean.mean() / np.sqrt(variance)
        assert found.p[-1, 1] == pytest.approx(2 * stats.t.sf(abs(t), 5))


def test_what_is_judged_at_once_is_judged_as_one_by_one():
    x = noise(3, 2, 4, 5)
    many, single = claims(x, 0), [claims(one, 0) for one in x]
    assert many.corrected.p[..., 1:] == pytest.approx(
        np.array([one.corrected.p[:, 1:] for one in single])
    )
    assert (many.outcome == np.array([one.outcome for one in single])).all()
    assert (many.best.leader == np.array([one.best.leader for one in single])).all()
