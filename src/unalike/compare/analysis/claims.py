"""From finished cells to the numbers that may be claimed: one line per method and condition.

A method leads a condition by its mean over the seeds that all methods have, and it leads over all
conditions by the mean of these. What may be claimed is decided for the whole comparison at once
(``statistics/claims.py``); as long as a cell is missing no method is called the best, and no number
is set in bold. ``wording`` puts all this into sentences.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from unalike.compare.analysis import uses
from unalike.compare.analysis.grid import Grid, design, grid, spent
from unalike.compare.analysis.heterogeneity import gammas
from unalike.compare.analysis.lines import OVERALL, Analysis, Line, Speed, Verdict, Versus
from unalike.compare.specification.settings import Judging
from unalike.compare.specification.spec import Comparison
from unalike.compare.statistics.claims import Claims, claims
from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.known import ALPHA, Array
from unalike.compare.statistics.paired import Outcome
from unalike.compare.statistics.ranks import CONDITIONS, Ranks, ranks
from unalike.compare.statistics.reuse import Reuse
from unalike.compare.statistics.speed import Speeds, speeds
from unalike.compare.statistics.summary import summarise
from unalike.metrics.catalogue import POOLED, higher, metric

Record = dict[str, Any]
LINE = ("local", "common")  # tests of clients' own rows, which may have points between models


def analyse(made: Comparison, records: Iterable[Record]) -> Analysis:
    """Everything the tables and the report say, from the records of the finished cells."""
    records = list(records)
    axes, how = grid(made), design(made, records)
    x = axes.array(records, lambda r: r["value"])
    base = axes.labels.index(made.baseline)
    found = claims(x, base, higher(made.judging.metric), how, made.judging.margin)
    rows = np.concatenate([x, x.mean(0, keepdims=True)]) if len(x) > 1 else x
    cells = _Cells(made, axes, found, rows, _speeds(made, records, axes, how))
    lines = [line for c in range(len(x)) for line in cells.lines(c, _groups(records, axes, c), how)]
    verdicts = [cells.verdict(c) for c in range(len(rows))]
    return Analysis(
        lines,
        [v for v in verdicts if v is not None],
        cells.overall() if len(x) > 1 else [],
        how.reuse,
        int(found.tests),
        _ranks(x, higher(made.judging.metric)),
        gammas(records),
    )


def asked(made: Comparison, condition: str) -> dict[str, int]:
    """For how many seeds each method was requested."""
    return Counter(c.label for c in made.cells if c.condition == condition)


def _groups(records: Sequence[Record], axes: Grid, c: int) -> dict[str, list[Record]]:
    """The records of one condition by method, for those that have some."""
    found: dict[str, list[Record]] = {label: [] for label in axes.labels}
    for r in records:
        if r["condition"] == axes.conditions[c]:
            found[r["label"]].append(r)
    return {label: rs for label, rs in found.items() if rs}


class _Speeds(NamedTuple):
    spent: Array
    reached: Array
    judged: Speeds


def _speeds(
    made: Comparison, records: Sequence[Record], axes: Grid, how: Design
) -> dict[str, _Speeds]:
    """By what is spent: rounds and bytes, and seconds where all runs have a simulated clock."""
    found = spent(made, records, axes)
    if np.isnan(found.rounds).all():
        return {}
    base = axes.labels.index(made.baseline)
    seeds = Design(how.test, [Reuse(r.ratio) for r in how.reuse], how.sources)
    kinds = {"rounds": found.rounds, "bytes": found.bytes}
    if np.array_equal(np.isnan(found.seconds), np.isnan(found.rounds)):
        kinds["seconds"] = found.seconds
    return {
        kind: _Speeds(used, found.reached, speeds(used, found.reached == 1, base, seeds))
        for kind, used in kinds.items()
    }


def _ranks(x: Array, more_is_better: bool) -> Ranks | None:
    """Of means over seeds, if all cells of enough conditions are there."""
    if len(x) < CONDITIONS or x.shape[1] < 2 or np.isnan(x).any():
        return None
    return ranks(x.mean(-1), more_is_better)


@dataclass(frozen=True)
class _Cells:
    """Lines and verdicts from arrays; the last row of several is that over all conditions."""

    made: Comparison
    axes: Grid
    found: Claims
    rows: Array
    speeds: Mapping[str, _Speeds]

    def lines(self, c: int, groups: Mapping[str, list[Record]], how: Design) -> list[Line]:
        """Those of one condition."""
        made, condition = self.made, self.axes.conditions[c]
        seeds = asked(made, condition)
        return [
            Line(
                label,
                condition,
                values := self._values(c, label),
                seeds[label],
                summarise(list(values.values()), how.reuse[c]),
                _beside(rs, made.judging),
                uses.ledger(rs),
                self._versus(c, label),
                self._outcome(c, label),
                self._best(c, label),
                uses.more(label, groups, made),
                uses.less(label, groups, made),
                _judged(rs, made.judging),
                {kind: self._speed(kind, c, label) for kind in self.speeds},
            )
            for label, rs in groups.items()
        ]

    def overall(self) -> list[Line]:
        """Those over all conditions, of methods that have finished a seed on all of them."""
        last, n = len(self.rows) - 1, len(self.axes.seeds)
        return [
            Line(
                label,
                OVERALL,
                values,
                n,
                summarise(list(values.values()))._replace(low=None, high=None),
                {},
                {},
                self._versus(last, label),
                self._outcome(last, label),
                self._best(last, label),
                [],
                [],
                speed={kind: self._speed(kind, last, label) for kind in self.speeds},
            )
            for label in self.axes.labels
            if (values := self._values(last, label))
        ]

    def verdict(self, c: int) -> Verdict | None:
        """Who leads, and whether that may be more than chance."""
        names, best, x = self.axes.labels, self.found.best, self.rows[c]
        condition = [*self.axes.conditions, OVERALL][c]
        there = ~np.isnan(x)
        present = there.any(-1)
        common = int(there[present].all(0).sum()) if present.any() else 0
        if present.sum() < 2 or not common:
            return None
        leader = names[best.leader[c]]
        if not there.all():
            return Verdict(condition, leader, "missing", common)
        if common < 2:
            return Verdict(condition, leader, "one seed", 1)
        others = [k for k in range(len(names)) if k != best.leader[c]]
        if (x == x[:1]).all():
            return Verdict(condition, leader, "equal", common)
        p = float(best.p[c])
        if best.clear[c]:
            return Verdict(condition, leader, "best", common, p)
        close = [names[k] for k in others if best.rivals[c, k] >= ALPHA]
        if close:
            return Verdict(condition, leader, "close", common, p, close)
        level = [names[k] for k in others if best.level[c, k]]
        return Verdict(condition, leader, "level", common, p, level)

    def _values(self, c: int, label: str) -> dict[int, float]:
        mine = self.rows[c, self.axes.labels.index(label)]
        return {
            s: float(v) for s, v in zip(self.axes.seeds, mine, strict=True) if not math.isnan(v)
        }

    def _best(self, c: int, label: str) -> bool:
        best = self.found.best
        return bool(best.clear[c]) and self.axes.labels[best.leader[c]] == label

    def _outcome(self, c: int, label: str) -> Outcome | None:
        return _said(self.found.outcome[c, self.axes.labels.index(label)])

    def _versus(self, c: int, label: str) -> Versus | None:
        found, k = self.found, self.axes.labels.index(label)
        n = int(found.sample.n[c, k])
        if label == self.made.baseline or not n:
            return None
        deviation = math.sqrt(found.sample.variance[c, k])
        mean = float(found.sample.mean[c, k])
        (low, high), (least, most) = self._intervals
        return Versus(
            n,
            mean,
            low=_known(low[c, k]),
            high=_known(high[c, k]),
            p=_known(found.p[c, k]),
            effect=mean / deviation if deviation > 0 else None,
            low_corrected=_known(least[c, k]),
            high_corrected=_known(most[c, k]),
            p_corrected=_known(found.corrected.p[c, k]),
            detectable=_known(self._detectable[c, k]),
        )

    @cached_property
    def _intervals(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """(of each difference alone, corrected); no difference of shares is beyond one."""
        most = 1.0 if metric(self.made.judging.metric).share else np.inf
        low, high, least, largest = (
            np.clip(end, -most, most)
            for ends in (self.found.interval(), self.found.corrected_interval())
            for end in ends
        )
        return (low, high), (least, largest)

    @cached_property
    def _detectable(self) -> Array:
        return self.found.detectable()

    def _speed(self, kind: str, c: int, label: str) -> Speed:
        found, k = self.speeds[kind], self.axes.labels.index(label)
        whole = slice(None) if c == len(self.axes.conditions) else c
        there, used = found.reached[whole, k], found.spent[whole, k]
        reached = there == 1
        needed = _known(used[reached].mean()) if reached.any() else None
        alone = Speed(int(reached.sum()), int((~np.isnan(there)).sum()), needed)
        judged = found.judged
        if label == self.made.baseline:
            return alone
        alone = alone._replace(p=_known(judged.p[c, k]), outcome=_said(judged.outcome[c, k]))
        if not reached.any():  # a ratio would be that of the rounds there were
            return alone
        return alone._replace(
            ratio=_known(judged.ratio[c, k]),
            low=_known(judged.low[c, k]),
            high=_known(judged.high[c, k]),
        )


def _beside(records: Sequence[Record], judging: Judging) -> dict[str, float | None]:
    """Means over seeds of the fairness and calibration of the compared metric."""
    sections = [r["metrics"].get(judging.section, {}) for r in records]
    own = [s[judging.metric] for s in sections if judging.metric in s]
    spread = judging.section != POOLED
    return {
        "worst10": uses.mean(m["worst10"] for m in own) if spread else None,
        "gini": uses.mean(m["gini"] for m in own) if spread else None,
        "ece": uses.mean(s["ece"]["mean"] for s in sections if "ece" in s),
        "round": uses.mean(r["round"] for r in records),
        "best_on_test": uses.mean(_best(r, judging) for r in records),
    }


def _best(record: Record, judging: Judging) -> float | None:
    """If requested, what test rows say is best: a point between two models, or else a round."""
    if not judging.best_on_test:
        return None
    point = record["metrics"].get("oracle", {}).get(judging.metric)
    if judging.section in LINE and point is not None:
        return cast(float | None, point[judging.statistic])
    found = [v for v in record.get("curve", {}).get("value", ()) if v is not None]
    return (max if higher(judging.metric) else min)(found, default=None)


def _judged(records: Sequence[Record], judging: Judging) -> list[tuple[int, int]]:
    """Under each seed, how many clients have a value of the metric, and how many there are."""
    found = [r["metrics"].get(judging.section, {}).get(judging.metric, {}) for r in records]
    return [(m["clients"], m["clients"] + m["undefined"]) for m in found if "undefined" in m]


def _said(outcome: str) -> Outcome | None:
    return cast(Outcome, str(outcome)) if outcome else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
