"""Variances that learn from each other, against the same integral done by other means."""

import numpy as np
import pytest
from scipy import stats

from unalike.compare.statistics import moderated
from unalike.compare.statistics.claims import claims
from unalike.compare.statistics.differences import Design, Values
from unalike.compare.statistics.moderated import ALIKE, ODD, components, learn, sample
from unalike.compare.statistics.reuse import Reuse


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def by_quadrature(x, odds, base=0):
    """P-values of the model in the docstring by scipy's densities on a fine, wide, fixed grid."""
    conditions, k, n = x.shape
    grid = np.linspace(-25, 25, 5001)  # log s0^2
    evidence, given = np.zeros(len(ALIKE)), []
    for c in range(conditions):
        s2 = [np.var(x[c, i] - x[c, j], ddof=1) for i in range(k) for j in range(i)]
        density = np.array(
            [
                [np.log((1 - odd) * usual(v, grid, d0, n) + odd / 20) for v in s2]
                for d0, odd in zip(ALIKE, odds, strict=True)
            ]
        )
        density = np.einsum("dpg,p->dg", density, counts(x[c]))
        whole = np.logaddexp.reduce(density, 1)
        evidence += whole
        given.append(np.exp(density - whole[:, None]))
    alike = np.exp(evidence - np.logaddexp.reduce(evidence))
    p = np.full((conditions, k), np.nan)
    for c in range(conditions):
        for i in set(range(k)) - {base}:
            d = x[c, i] - x[c, base]
            alone, total = stats.ttest_1samp(d, 0).pvalue, 0.0
            for w, d0, share, weights in zip(alike, ALIKE, odds, given[c], strict=True):
                s2 = (d0 * np.exp(grid) + (n - 1) * d.var(ddof=1)) / (d0 + n - 1)
                t = abs(d.mean()) / np.sqrt(s2 / n)
                odd = 1 / (1 + (1 - share) * usual(d.var(ddof=1), grid, d0, n) * 20 / share)
                both = (1 - odd) * 2 * stats.t.sf(t, d0 + n - 1) + odd * alone
                total += w * (weights * both).sum()
            p[c, i] = total
    return p


def counts(x):
    """How much each pair counts: at most 2 / K, and the less the more pairs it resembles."""
    k, n = x.shape
    pairs = [x[i] - x[j] for i in range(k) for j in range(i)]
    r2 = (np.corrcoef(pairs) ** 2 * (n - 1) - 1) / (n - 2)
    np.fill_diagonal(r2, 1.0)
    return 1 / np.maximum(k / 2, r2.sum(1))


def usual(s2, grid, d0, n):
    """The density of log s^2 for every log s0^2."""
    ratio = s2 / np.exp(grid)
    return stats.f.pdf(ratio, n - 1, d0) * ratio


@pytest.mark.parametrize("shape", [(1, 3, 3), (1, 9, 5), (2, 4, 5), (3, 3, 12)])
@pytest.mark.parametrize(("odds", "near"), [(1e-30 + 0 * ODD, 2e-3), (0.1 * ODD, 3e-2)])
def test_p_values_are_those_of_the_integral(monkeypatch, shape, odds, near):
    """With odd variances the likelihood has no end, so that a wider grid finds a little more."""
    monkeypatch.setattr(moderated, "ODD", odds)
    x = draw(3, *shape) * np.exp(draw(4, *shape[:2], 1))
    ours = Values(x, Design(reuse=(Reuse(),) * shape[0])).against(0).known.p()
    assert ours[:, 1:] == pytest.approx(by_quadrature(x, odds)[:, 1:], rel=near)


def test_given_how_alike_they_are_it_is_smyths_formula():
    """d0 = 8 and s0^2 = 0.25 with s^2 = 1 of 5 seeds: (8 x 0.25 + 4 x 1) / 12, 12 degrees."""
    found = sample(np.array([[[0.0, 0, 0, 0, 0], [-1.5, -0.5, 0.5, 0.5, 1.0]]]))
    prior = learn(draw(0, 1, 3, 5))
    eight = np.flatnonzero(ALIKE == 8)[0]
    prior = prior._replace(level=np.full_like(prior.level, 0.25))
    _, variance, df = components(found, prior)
    grids = (a[..., :-1].reshape(2, len(ALIKE), -1) for a in (variance, df))
    at = [a[:, eight] for a in grids]
    assert found.variance[0, 1] == pytest.approx(1.0)
    assert variance[0, 1, -1] == pytest.approx(1.0)  # Student's, for one like no other
    assert at[0][1] == pytest.approx((8 * 0.25 + 4) / 12)
    assert (at[1] == 12).all()


def test_the_mean_of_all_pairs_variances_is_the_analysis_of_variances():
    """Why all pairs together count as K - 1 variances: their mean has (K - 1)(n - 1) degrees."""
    x = draw(1, 6, 5) + draw(2, 1, 5)
    pairs = [np.var(x[i] - x[j], ddof=1) for i in range(6) for j in range(i)]
    rest = x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()
    assert np.mean(pairs) == pytest.approx(2 * (rest**2).sum() / (5 * 4))


def test_a_method_that_is_there_twice_counts_once():
    """Its pairs are the same pairs: they may not make each other's variance surer."""
    x = draw(14, 1, 3, 10)
    x[0, 1] = x[0, 0] + 1e-3 * draw(15, 10)
    ours = claims(x, 0).p[0, 2]
    student = claims(x, 0, design=Design("t")).p[0, 2]
    assert ours == pytest.approx(student, rel=0.15)


def test_many_alike_variances_are_as_good_as_one_that_is_known():
    x = draw(5, 40, 9, 5)
    found = Values(x, Design(reuse=(Reuse(),) * 40)).against(0)
    z = np.abs(found.sample.mean) / np.sqrt(2 / 5)
    ours, known = found.known.p()[:, 1:], 2 * stats.norm.sf(z)[:, 1:]
    assert np.abs(np.log(ours) - np.log(known)).mean() < 0.25


def test_variances_that_are_nothing_like_each_other_are_left_alone():
    x = draw(6, 30, 9, 5) * np.exp(3 * draw(7, 30, 9, 1))
    ours = Values(x, Design(reuse=(Reuse(),) * 30)).against(0).known.p()[:, 1:]
    student = Values(x, Design("t", (Reuse(),) * 30)).against(0).known.p()[:, 1:]
    assert np.abs(np.log(ours) - np.log(student)).mean() < 0.5


@pytest.mark.parametrize(
    ("methods", "factor", "near"), [(9, 0.01, 0.02), (3, 0.01, 0.02), (9, 100.0, 0.1)]
)
def test_a_pair_like_no_other_is_left_alone(methods, factor, near):
    """A method that hardly differs from the baseline, and one that does so wildly."""
    x = draw(12, 1, methods, 5)
    x[0, 1] = x[0, 0] + factor * draw(13, 5)
    ours = claims(x, 0).p[0, 1]
    student = claims(x, 0, design=Design("t")).p[0, 1]
    assert ours == pytest.approx(student, rel=near)


def test_seeds_that_are_common_to_all_methods_change_nothing():
    x = draw(8, 2, 5, 5)
    assert claims(x + 9 * draw(9, 2, 1, 5), 0).p[:, 1:] == pytest.approx(claims(x, 0).p[:, 1:])


def test_a_factor_changes_nothing():
    x = draw(8, 2, 5, 5)
    assert claims(1e-3 * x, 0).p[:, 1:] == pytest.approx(claims(x, 0).p[:, 1:])


def test_missing_values_take_no_part():
    """A method without values is as good as absent, but for how it was counted."""
    x = draw(10, 1, 4, 6)
    x[0, 3] = np.nan
    assert claims(x, 0).p[0, 1:3] == pytest.approx(claims(x[:, :3], 0).p[0, 1:])
    x = draw(11, 1, 4, 6)
    x[0, 2, 4:] = np.nan
    found = claims(x, 0)
    assert found.sample.n.tolist() == [[6, 6, 4, 6]]
    assert found.sample.mean[0, 2] == pytest.approx((x[0, 2, :4] - x[0, 0, :4]).mean())
    assert not np.isnan(found.p[0, 1:]).any()


def test_methods_that_never_vary_are_judged_by_signs():
    x = np.zeros((1, 3, 5))
    x[0, 1] = 0.25
    found = claims(x, 0)
    assert found.p[0, 1:] == pytest.approx([2**-4, 1.0])
    assert found.outcome.tolist() == [["", "open", "equal"]]
