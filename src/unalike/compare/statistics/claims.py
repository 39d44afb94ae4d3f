"""What may be claimed about methods on conditions, with all claims corrected together.

Every method's difference to the baseline on every condition and on the mean of all conditions, and
who is best on each of these, are one family, corrected by Holm's method with weights: leaders have
a tenth of alpha at first, differences the rest, and each claim that is shown passes its share on to
all others. A leader must be ahead of every other method (no correction over the others, see
``family.py``). Being best implies being ahead of the baseline, so the smaller of both p-values
counts for that difference. With two methods both are the same claim.

win, loss   corrected p < 0.05
equal       corrected interval within the margin, and so says the test of equivalence, corrected
            over the family; or the runs are the same
open        anything else: nothing is shown
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unalike.compare.statistics.differences import Design, Differences, Test, Values, least_p
from unalike.compare.statistics.family import Corrected, hardest, holm
from unalike.compare.statistics.known import ALPHA, Array, Flags, Known, Numbers
from unalike.compare.statistics.moderated import Sample

BEST = 0.1  # the leaders' part of alpha: more finds more leaders and fewer differences


@dataclass(frozen=True)
class Best:
    """Who leads on each condition, and whether that is more than chance; shape (..., R)."""

    leader: Numbers
    p: Array  # that the leader is not ahead of all, corrected over the family
    clear: Flags
    rivals: Array  # p by method that the leader is not ahead of it, corrected in the same way
    level: Flags  # by method, whether it is shown to be as good as the leader


@dataclass(frozen=True)
class Claims:
    """Differences from the baseline; shape (..., R, K), the last of the R rows over all conditions.

    With a single condition there is no such row. The baseline's own column is nan.
    """

    sample: Sample
    known: Known
    p: Array
    corrected: Corrected
    outcome: NDArray[np.str_]  # empty where there is no test
    tests: Numbers  # of differences, in the family
    best: Best
    test: Test

    def interval(self, alpha: Array | float = ALPHA) -> tuple[Array, Array]:
        """Of each difference alone; nan where seeds that all say the same leave it unknown.

        Zero is inside where p is not below alpha, be it for another test's sake.
        """
        size = np.abs(self.known.mean)
        half = self.known.half(alpha)
        half = np.where(self.p >= alpha, np.maximum(half, size), half)
        half = np.where((self.known.scale.max(-1) == 0) & (size > 0), np.nan, half)
        return self.known.mean - half, self.known.mean + half

    def corrected_interval(self) -> tuple[Array, Array]:
        """Of the level of each difference's corrected test."""
        return self.interval(ALPHA / self.corrected.times)

    def detectable(self) -> Array:
        """The least true difference that the family's strictest test finds in 80 of 100 cases.

        Not a number where the test finds nothing, however large a difference is.
        """
        alpha = ALPHA * share(self.p.shape[-1]) / np.maximum(self.tests, 1)[..., None, None]
        hopeless = least_p(self.sample.n, self.test) >= alpha
        return np.where(hopeless, np.nan, self.known.detectable(alpha))


def claims(
    x: Array,
    baseline: int,
    higher: bool = True,
    design: Design | None = None,
    margin: float = 0.0,
) -> Claims:
    """Decide what may be claimed of values by condition, method and seed.

    Args:
        x: Shape (..., C, K, n), nan where a value is missing.
        baseline: The method all others are compared with.
        higher: Whether more is better.
        design: How; by default moderated, for seeds that share no rows.
        margin: Differences within it are as good as none.
    """
    values = Values(x, design or Design(reuse=Design().reuse * x.shape[-3]))
    rows = np.concatenate([x, x.mean(-3, keepdims=True)], -3) if x.shape[-3] > 1 else x
    found = _against(values, np.full(rows.shape[:-2], baseline))
    p = found.known.p()
    p[..., baseline] = np.nan
    flat = p.reshape(*p.shape[:-2], -1)
    lead = _lead(values, rows, higher)
    family, leaders = _together(p, lead.p)
    best = _best(lead, leaders, np.asarray(~np.isnan(rows).any((-1, -2))), margin)
    family = _implied(p, family, best, baseline)
    better = (found.known.mean > 0) == higher
    shown = np.where(family.p < ALPHA, np.where(better, "win", "loss"), "open")
    shown = np.where(_equal(found.known, p, family, margin), "equal", shown)
    outcome = np.where(np.isnan(p), "", shown)
    tests = (~np.isnan(flat)).sum(-1)
    return Claims(*found, p, family, outcome, tests, best, values.design.test)


def share(methods: int) -> float:
    """The differences' part of alpha; of two methods, who is best is the same claim."""
    return 1.0 if methods == 2 else 1 - BEST


def _against(values: Values, base: Numbers) -> Differences:
    """On each condition and, if there are several, over all; ``base`` has a method for each row."""
    several = values.x.shape[-3] > 1
    parts = [values.against(base[..., :-1] if several else base)]
    parts += [values.overall(base[..., -1:])] if several else []
    sample = Sample(*(np.concatenate(a, -2) for a in zip(*(d.sample for d in parts), strict=True)))
    known = [d.known for d in parts]
    return Differences(
        sample,
        Known(
            np.concatenate([k.mean for k in known], -2),
            np.concatenate([k.weight for k in known], -3),
            np.concatenate([k.scale for k in known], -3),
            np.concatenate([k.df for k in known], -3),
            np.concatenate([k.floor for k in known], -2),
        ),
    )


class _Lead(NamedTuple):
    """Who leads each row, and how the others differ from it."""

    leader: Numbers
    known: Known
    each: Array  # p by method, nan for the leader itself
    p: Array  # of being ahead of all others


def _lead(values: Values, rows: Array, higher: bool) -> _Lead:
    """The leaders, by their means over the seeds that all methods with values have."""
    there = ~np.isnan(rows)
    absent = ~there.any(-1, keepdims=True)
    common = (there | absent).all(-2, keepdims=True) & there
    score = np.where(common, rows if higher else -rows, 0.0).sum(-1)
    leader = np.where(common.any(-1), score, -np.inf).argmax(-1)
    found = _against(values, leader).known  # of the others to the leader
    p = found.p()
    np.put_along_axis(p, leader[..., None], np.nan, -1)
    return _Lead(leader, found, p, hardest(p, leader))


def _together(p: Array, best: Array) -> tuple[Corrected, Corrected]:
    """(differences, leaders), corrected together."""
    flat = p.reshape(*p.shape[:-2], -1)
    if p.shape[-1] == 2:
        family = Corrected(*(a.reshape(p.shape) for a in holm(flat)))
        other = np.isnan(p).argmin(-1)[..., None]  # than the baseline
        return family, Corrected(*(np.take_along_axis(a, other, -1)[..., 0] for a in family))
    parts = [_part(flat, 1 - BEST), _part(best, BEST)]
    both = holm(np.concatenate([flat, best], -1), np.concatenate(parts, -1))
    n = flat.shape[-1]
    return (
        Corrected(*(a[..., :n].reshape(p.shape) for a in both)),
        Corrected(*(a[..., n:] for a in both)),
    )


def _part(p: Array, whole: float) -> Array:
    """Of alpha, the same for each test."""
    tests = np.maximum((~np.isnan(p)).sum(-1, keepdims=True), 1)
    return np.broadcast_to(whole / tests, p.shape)


def _best(lead: _Lead, family: Corrected, complete: Flags, margin: float) -> Best:
    clear = complete & (family.p < ALPHA)
    level = np.zeros(lead.each.shape, bool)
    if margin:  # no method is best if a rival is shown to be as good
        half = lead.known.half(ALPHA / family.times[..., None])
        level = (np.abs(lead.known.mean) + half <= margin) & ~np.isnan(lead.each)
        clear &= ~level.any(-1)
    rivals = np.minimum(lead.each * family.times[..., None], 1.0)
    return Best(lead.leader, family.p, clear, rivals, level)


def _implied(p: Array, family: Corrected, best: Best, baseline: int) -> Corrected:
    """Where the best is or beats the baseline, that is claimed already."""
    own = np.arange(p.shape[-1]) == best.leader[..., None]
    claimed = best.clear[..., None] & (own | (best.leader == baseline)[..., None])
    claimed &= best.p[..., None] < family.p
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(p > 0, best.p[..., None] / p, 1.0)
    return Corrected(
        np.where(claimed, best.p[..., None], family.p), np.where(claimed, times, family.times)
    )


def _equal(known: Known, p: Array, family: Corrected, margin: float) -> Flags:
    """Within the margin, or the same in every seed."""
    same = (known.mean == 0) & (known.scale.max(-1) == 0)
    if not margin:
        return same
    apart = np.where(np.isnan(p), np.nan, known.apart(margin))
    shown = holm(apart.reshape(*p.shape[:-2], -1)).p.reshape(p.shape) < ALPHA
    inside = np.abs(known.mean) + known.half(ALPHA / family.times) <= margin
    return same | (shown & inside)
