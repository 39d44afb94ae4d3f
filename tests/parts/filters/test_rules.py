"""Median, trimmed mean, Krum and norm clipping on updates small enough to work out by hand."""

import numpy as np
import pytest
import torch
from federations import cohort
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from unalike.parts.filters.krum import Krum, scores
from unalike.parts.filters.median import Median
from unalike.parts.filters.norm_clip import NormClip
from unalike.parts.filters.trimmed_mean import TrimmedMean

from unalike.errors import RunError
from unalike.recipe import Filter
from unalike.tree import gram, mean

# Five clients, two coordinates; the last one lies.
FIVE = [[1.0, 10.0], [2.0, 30.0], [4.0, 20.0], [3.0, 50.0], [1e6, -1e6]]


def used(rule: Filter, rows: list[list[float]], p: list[float] | None = None) -> list[float]:
    """What a server that sums p_k u_k gets, with the two coordinates in two leaves."""
    x = torch.tensor(rows, dtype=torch.float64)
    weights = torch.full((len(x),), 1 / len(x)) if p is None else torch.tensor(p)
    ups, kept = rule({"a": x[:, :1], "b": x[:, 1:]}, weights.double(), cohort([1.0] * len(x)))
    whole = mean(kept, ups)
    return [float(whole["a"]), float(whole["b"])]


def test_median_of_an_odd_number() -> None:
    """1 2 3 4 1e6 and -1e6 10 20 30 50."""
    assert used(Median(), FIVE) == [3.0, 20.0]


def test_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    """1 2 3 4 and 10 20 30 50."""
    assert used(Median(), FIVE[:4]) == [2.5, 25.0]


def test_median_is_one_row_that_ignores_weights() -> None:
    """Whatever a client claims to weigh."""
    assert used(Median(), FIVE, [0.0, 0.0, 0.0, 0.0, 1.0]) == [3.0, 20.0]


def test_trimmed_mean() -> None:
    """One of five cut at each end: (2 + 3 + 4) / 3 and (10 + 20 + 30) / 3."""
    assert used(TrimmedMean(0.2), FIVE) == pytest.approx([3.0, 20.0])
    assert used(TrimmedMean(0.25), FIVE[:4]) == pytest.approx([2.5, 25.0])


@pytest.mark.parametrize(
    ("trim", "n", "cut"),
    [(0.2, 5, 1), (0.2, 4, 0), (0.29, 100, 29), (0.49, 3, 1), (0.1, 30, 3), (0.0, 9, 0)],
)
def test_how_many_are_trimmed(trim: float, n: int, cut: int) -> None:
    assert TrimmedMean(trim).cut(n) == cut


def test_trimming_nobody_is_the_plain_mean() -> None:
    """(1 + 2 + 4 + 3) / 4 and (10 + 30 + 20 + 50) / 4."""
    assert used(TrimmedMean(0.0), FIVE[:4]) == pytest.approx([2.5, 27.5])


def test_trimming_to_the_middle_is_the_median() -> None:
    assert used(TrimmedMean(0.49), FIVE) == used(Median(), FIVE)


LINE = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0], [9.0, 0.0], [9.5, 0.0]]


def test_krum_scores() -> None:
    """n = 6, f = 1: squared distances to the three nearest, by hand.

    0: 1 + 9 + 16; 1: 1 + 4 + 9; 3: 4 + 1 + 9; 4: 1 + 9 + 16; 9: .25 + 25 + 36;
    9.5: .25 + 30.25 + 42.25.
    """
    found = scores(gram({"u": torch.tensor(LINE)}), attackers=1)
    assert found.tolist() == pytest.approx([26.0, 14.0, 14.0, 26.0, 61.25, 72.75])


def test_krum_picks_the_first_of_the_best() -> None:
    """1 and 3 tie; a tie goes to the client with the lower number."""
    assert used(Krum(attackers=1), LINE) == [1.0, 0.0]


def test_multi_krum_averages_the_best() -> None:
    """(1 + 3 + 0 + 4) / 4: the pair at 9 is close to itself but to nobody else."""
    assert used(Krum(attackers=1, select=2), LINE) == [2.0, 0.0]
    assert used(Krum(attackers=1, select=4), LINE) == [2.0, 0.0]


def test_krum_reports_who_counted() -> None:
    """Those left out weigh nothing."""
    x = {"u": torch.tensor(LINE)}
    _, p = Krum(1, 2)(x, torch.full((6,), 1 / 6), cohort([1.0] * 6))
    assert p.tolist() == [0.0, 0.5, 0.5, 0.0, 0.0, 0.0]


def test_krum_with_too_few_answers() -> None:
    with pytest.raises(RunError, match=r"got 6 answers.*2 attackers needs 7.*min_replies = 7"):
        used(Krum(attackers=2), LINE)


def test_norm_clip_at_a_fixed_length() -> None:
    """(3, 4) has length 5 and is halved; the others stay: mean of (1.5, 2), (1, 0), (0, -2)."""
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]]
    assert used(NormClip(2.5), rows) == pytest.approx([2.5 / 3, 0.0])


def test_norm_clip_at_the_median_length() -> None:
    """Lengths 5, 1, 2: the bound is 2, so (3, 4) becomes (1.2, 1.6)."""
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]]
    assert used(NormClip(), rows) == pytest.approx([2.2 / 3, -0.4 / 3])


def test_norm_clip_leaves_the_weights_alone() -> None:
    """0.5 (1.2, 1.6) + 0.25 (1, 0) + 0.25 (0, -2)."""
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]]
    assert used(NormClip(), rows, [0.5, 0.25, 0.25]) == pytest.approx([0.85, 0.3])


def test_no_bound_is_the_weighted_mean() -> None:
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]]
    assert used(NormClip(torch.inf), rows, [0.5, 0.25, 0.25]) == pytest.approx([1.75, 1.5])


def test_clipping_zero_updates() -> None:
    """All of length zero: the median is zero too, and nothing becomes NaN."""
    assert used(NormClip(), [[0.0, 0.0]] * 3) == [0.0, 0.0]


RULES = {
    "median": Median(),
    "trimmed": TrimmedMean(0.3),
    "krum": Krum(2),
    "multi_krum": Krum(2, 3),
    "clip": NormClip(),
}
SEEDS = st.integers(0, 10_000)


def updates(seed: int, n: int = 7) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 3)))


def result(rule: Filter, x: Tensor) -> Tensor:
    n = len(x)
    ups, p = rule({"u": x}, torch.full((n,), 1 / n, dtype=torch.float64), cohort([1.0] * n))
    return mean(p, ups)["u"]


@pytest.mark.parametrize("name", RULES)
@given(seed=SEEDS)
def test_the_order_of_clients_does_not_matter(name: str, seed: int) -> None:
    x = updates(seed)
    order = torch.from_numpy(np.random.default_rng(seed + 1).permutation(len(x)))
    torch.testing.assert_close(result(RULES[name], x), result(RULES[name], x[order]))


@pytest.mark.parametrize("name", RULES)
@given(seed=SEEDS)
def test_if_all_agree_nothing_changes(name: str, seed: int) -> None:
    x = updates(seed, 1).expand(7, 3)
    torch.testing.assert_close(result(RULES[name], x), x[0])


@pytest.mark.parametrize("name", ["median", "trimmed", "krum", "multi_krum"])
@given(seed=SEEDS, lie=st.sampled_from([1e6, -1e6, 1e12]))
def test_two_liars_of_seven_stay_without_effect(name: str, seed: int, lie: float) -> None:
    """The result lies within the range of the honest, coordinate by coordinate."""
    x = updates(seed)
    honest, x = x[2:].clone(), x.clone()
    x[:2] = lie * torch.tensor([[1.0], [0.9]], dtype=x.dtype)
    found = result(RULES[name], x)
    assert (found >= honest.min(0).values - 1e-9).all()
    assert (found <= honest.max(0).values + 1e-9).all()


@given(seed=SEEDS, lie=st.sampled_from([1e6, -1e12]))
def test_a_clipped_liar_moves_the_mean_by_at_most_the_bound(seed: int, lie: float) -> None:
    """Two of seven can add at most 2/7 of an honest length each way."""
    x = updates(seed)
    longest = x[2:].norm(dim=1).max()
    x[:2] = lie
    assert result(RULES["clip"], x).norm() <= longest + 1e-9


@given(seed=SEEDS)
def test_the_mean_itself_is_at_the_mercy_of_one_liar(seed: int) -> None:
    """What the rules above are for."""
    x = updates(seed)
    x[0] = 1e6
    assert (result(TrimmedMean(0.0), x) > 1e5).all()
