"""From finished cells to the numbers that may be claimed: one line a method and condition.

A method leads a condition by its mean over the seeds that all methods have. It is called the best
only if its paired difference to every other method has an interval without zero and stays
significant after Holm's correction over these, and its difference to the baseline also among the
differences of all methods to the baseline. Otherwise, and as long as a cell is missing, there is no
clear winner, and no number is set in bold. ``wording`` says all this in sentences.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from unalike.compare.settings import Judging
from unalike.compare.spec import Comparison
from unalike.compare.statistics import Outcome, Paired, Summary, holm, outcome, paired, summarise
from unalike.metrics.catalogue import POOLED, higher

Record = dict[str, Any]
Standing = Literal["best", "close", "equal", "missing", "one seed"]
MORE = 1.01  # times the baseline's use from which on a method is said to have used more
LESS = 0.9  # times the budget below which a method is said to have left some of it
LEDGER = ("bytes", "samples", "rounds")


class Use(NamedTuple):
    """How often a method used up what it was given, or what the baseline used."""

    of: str  # bytes, samples or rounds
    times: float  # infinite if that was nothing
    budget: bool  # whether it is compared with a stated budget, not with the baseline


@dataclass(frozen=True)
class Line:
    """A method under a condition."""

    label: str
    condition: str
    values: dict[int, float]  # seed -> the compared number
    asked: int  # for how many seeds
    summary: Summary
    beside: dict[str, float | None]  # means over seeds of what else a table shows
    ledger: dict[str, float]  # means over seeds
    versus: Paired | None  # the baseline; None for the baseline itself
    p: float | None  # corrected
    outcome: Outcome | None
    best: bool
    more: list[Use]  # than its budget or the baseline
    less: list[Use]  # than its budget

    @property
    def differs(self) -> bool:
        """From the baseline, by the corrected test and the interval."""
        return self.outcome in ("win", "loss")


@dataclass(frozen=True)
class Verdict:
    """Who leads a condition, and how far that may be claimed."""

    condition: str
    leader: str
    standing: Standing
    seeds: int  # that all methods with results have
    p: float | None = None  # the largest that counts, corrected
    rivals: list[str] = field(default_factory=list)  # whom the leader is not proven to beat

    @property
    def clear(self) -> bool:
        """Whether the leader is the best beyond chance."""
        return self.standing == "best"


@dataclass(frozen=True)
class Analysis:
    """A whole comparison."""

    lines: list[Line]
    verdicts: list[Verdict]

    def at(self, condition: str) -> list[Line]:
        """The lines of one condition."""
        return [line for line in self.lines if line.condition == condition]

    def of(self, label: str) -> list[Line]:
        """The lines of one method."""
        return [line for line in self.lines if line.label == label]


def analyse(made: Comparison, records: Iterable[Record]) -> Analysis:
    """Everything the tables and the report say, from the records of the finished cells."""
    records = list(records)
    lines: list[Line] = []
    verdicts: list[Verdict] = []
    for condition in made.conditions:
        groups = {
            label: [r for r in records if r["label"] == label and r["condition"] == condition]
            for label in made.labels
        }
        groups = {label: rs for label, rs in groups.items() if rs}
        values = {label: _values(rs) for label, rs in groups.items()}
        versus = _against_baseline(made, values)
        adjusted = holm([None if v is None else v.p for v in versus.values()])
        p = dict(zip(versus, adjusted, strict=True))
        seeds = asked(made, condition)
        verdict = _verdict(made, condition, values, seeds, p)
        if verdict is not None:
            verdicts.append(verdict)
        lines += [
            Line(
                label,
                condition,
                values[label],
                seeds[label],
                summarise(list(values[label].values()), made.judging.interval),
                _beside(rs, made.judging),
                _ledger(rs),
                v := versus[label],
                p[label],
                None if v is None else outcome(v._replace(p=p[label]), higher(made.judging.metric)),
                verdict is not None and verdict.clear and verdict.leader == label,
                _more(label, groups, made),
                _less(label, groups, made),
            )
            for label, rs in groups.items()
        ]
    return Analysis(lines, verdicts)


def asked(made: Comparison, condition: str) -> dict[str, int]:
    """For how many seeds each method was asked for."""
    return Counter(c.label for c in made.cells if c.condition == condition)


def _against_baseline(
    made: Comparison, values: dict[str, dict[int, float]]
) -> dict[str, Paired | None]:
    base = values.get(made.baseline)
    return {
        label: _paired(mine, base, made.judging) if base and label != made.baseline else None
        for label, mine in values.items()
    }


def _values(records: Sequence[Record]) -> dict[int, float]:
    return {r["seed"]: r["value"] for r in records if r["value"] is not None}


def _paired(mine: dict[int, float], other: dict[int, float], judging: Judging) -> Paired:
    """Over the seeds both have."""
    seeds = [s for s in mine if s in other]
    return paired(
        [mine[s] for s in seeds], [other[s] for s in seeds], judging.test, judging.interval
    )


def _verdict(
    made: Comparison,
    condition: str,
    values: Mapping[str, dict[int, float]],
    asked: Mapping[str, int],
    against_baseline: Mapping[str, float | None],
) -> Verdict | None:
    """Who leads, and whether that may be more than chance."""
    there = {label: v for label, v in values.items() if v}
    seeds = set.intersection(*map(set, there.values())) if there else set()
    if len(there) < 2 or not seeds:
        return None
    sign = 1 if higher(made.judging.metric) else -1
    leader, *others = sorted(there, key=lambda k: -sign * sum(there[k][s] for s in seeds))
    if any(len(there.get(label, ())) < n for label, n in asked.items()):
        return Verdict(condition, leader, "missing", len(seeds))
    if len(seeds) < 2:
        return Verdict(condition, leader, "one seed", 1)
    tests = [_paired(there[leader], there[o], made.judging) for o in others]
    p = [1.0 if x is None else x for x in holm([t.p for t in tests])]
    for i, o in enumerate(others):  # two tables must not contradict each other
        pair = against_baseline[leader if o == made.baseline else o]
        if made.baseline in (o, leader) and pair is not None:
            p[i] = max(p[i], pair)
    pairs = [t._replace(p=x) for t, x in zip(tests, p, strict=True)]
    close = [i for i, pair in enumerate(pairs) if outcome(pair, sign > 0) != "win"]
    if not any(pair.mean or pair.p != 1 for pair in pairs):
        return Verdict(condition, leader, "equal", len(seeds))
    if not close:
        return Verdict(condition, leader, "best", len(seeds), max(p))
    worst, rivals = max(p[i] for i in close), [others[i] for i in close]
    return Verdict(condition, leader, "close", len(seeds), worst, rivals)


def _beside(records: Sequence[Record], judging: Judging) -> dict[str, float | None]:
    """Means over seeds of the fairness and calibration of the compared metric."""
    sections = [r["metrics"].get(judging.section, {}) for r in records]
    own = [s[judging.metric] for s in sections if judging.metric in s]
    spread = judging.section != POOLED
    return {
        "worst10": _mean(m["worst10"] for m in own) if spread else None,
        "gini": _mean(m["gini"] for m in own) if spread else None,
        "ece": _mean(s["ece"]["mean"] for s in sections if "ece" in s),
        "round": _mean(r["round"] for r in records),
    }


def _ledger(records: Sequence[Record]) -> dict[str, float]:
    names = records[0]["ledger"]
    return {name: _mean(r["ledger"][name] for r in records) or 0.0 for name in names}


def _more(label: str, groups: Mapping[str, Sequence[Record]], made: Comparison) -> list[Use]:
    """What a method used more of than its budget or the baseline."""
    mine, base = _ledgers(label, groups, made)
    out, budget = [], made.budget
    for name in LEDGER:
        limit = budget.amount if name == budget.kind and budget.amount is not None else None
        if limit is not None and mine[name] > limit:
            out.append(Use(name, mine[name] / limit, budget=True))
        elif base is not None and label != made.baseline and mine[name] > MORE * base[name]:
            times = mine[name] / base[name] if base[name] else math.inf
            out.append(Use(name, times, budget=False))
    return out


def _less(label: str, groups: Mapping[str, Sequence[Record]], made: Comparison) -> list[Use]:
    """What a method left of a budget of samples or bytes."""
    mine, base = _ledgers(label, groups, made)
    kind = made.budget.kind
    if kind == "rounds" or (made.budget.amount is None and base is None):
        return []
    limit = made.budget.amount or (base or {}).get(kind, 0.0)
    times = mine[kind] / limit if limit else 1.0
    return [Use(kind, times, budget=True)] if times < LESS else []


def _ledgers(
    label: str, groups: Mapping[str, Sequence[Record]], made: Comparison
) -> tuple[dict[str, float], dict[str, float] | None]:
    """(of a method, of the baseline) over the seeds both have; alone if there are none."""
    mine, base = groups[label], groups.get(made.baseline, ())
    seeds = {r["seed"] for r in mine} & {r["seed"] for r in base}
    if not seeds:
        return _ledger(mine), None
    both = ([r for r in records if r["seed"] in seeds] for records in (mine, base))
    one, other = map(_ledger, both)
    return one, other


def _mean(values: Iterable[float | None]) -> float | None:
    found = [v for v in values if v is not None]
    return sum(found) / len(found) if found else None
