"""From finished cells to what may be said of them: one line a method and condition.

A method leads a condition by its mean over the seeds that all methods have. It is called the best
only if its paired difference to every other method has an interval without zero and stays
significant after Holm's correction over these, and its difference to the baseline also among the
differences of all methods to the baseline. Otherwise, and as long as a cell is missing, there is no
clear winner, and no number is set in bold.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unalike.compare.settings import Budget, Judging
from unalike.compare.spec import Comparison
from unalike.compare.statistics import (
    ALPHA,
    Outcome,
    Paired,
    Summary,
    holm,
    least_p,
    outcome,
    paired,
    summarise,
)
from unalike.engine.evaluate import LOWER_IS_BETTER

Record = dict[str, Any]
MORE = 1.01  # a share of the baseline's use from which on a method is said to have used more
LESS = 0.9  # a share of the budget below which a method is said to have left some of it
FEW = 20  # seeds below which the bootstrap's intervals are clearly too narrow
TESTS = {
    "t": "paired t-test",
    "hall": "paired t-test guarded against skew",
    "wilcoxon": "Wilcoxon's signed-rank test",
}
LEDGER = ("bytes", "samples", "rounds")


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
    more: str  # what it used more of, in words
    less: str  # what it left of the budget, in words

    @property
    def differs(self) -> bool:
        """From the baseline, by the corrected test and the interval."""
        return self.outcome in ("win", "loss")


@dataclass(frozen=True)
class Verdict:
    """A condition in one sentence."""

    condition: str
    leader: str
    clear: bool
    sentence: str


@dataclass(frozen=True)
class Analysis:
    """A whole comparison."""

    lines: list[Line]
    verdicts: list[Verdict]
    notes: list[str]

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
        asked = _asked(made, condition)
        verdict = _verdict(made, condition, values, asked, p)
        if verdict is not None:
            verdicts.append(verdict)
        lines += [
            Line(
                label,
                condition,
                values[label],
                asked[label],
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
    return Analysis(lines, verdicts, [*_notes(made, lines), *_missing(made, lines)])


def _asked(made: Comparison, condition: str) -> dict[str, int]:
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


def higher(metric: str) -> bool:
    """Whether more of the metric is better."""
    return metric not in LOWER_IS_BETTER


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
        which = f"the {len(seeds)} seeds" if len(seeds) > 1 else "the one seed"
        sentence = (
            f"{leader} leads over {which} that all methods with results have; no winner is called "
            "while cells are missing."
        )
        return Verdict(condition, leader, False, sentence)
    if len(seeds) < 2:
        sentence = f"{leader} leads; no test, since one seed says nothing about chance."
        return Verdict(condition, leader, False, sentence)
    tests = [_paired(there[leader], there[o], made.judging) for o in others]
    p = [1.0 if x is None else x for x in holm([t.p for t in tests])]
    for i, o in enumerate(others):  # two tables must not contradict each other
        pair = against_baseline[leader if o == made.baseline else o]
        if made.baseline in (o, leader) and pair is not None:
            p[i] = max(p[i], pair)
    pairs = [t._replace(p=x) for t, x in zip(tests, p, strict=True)]
    close = [i for i, pair in enumerate(pairs) if outcome(pair, sign > 0) != "win"]
    if not any(pair.mean or pair.p != 1 for pair in pairs):
        return Verdict(condition, leader, False, "no difference: all methods have the same mean.")
    if not close:
        sentence = (
            f"{leader} is best: ahead of every other method over {len(seeds)} seeds "
            f"(largest corrected p = {max(p):.2g})."
        )
        return Verdict(condition, leader, True, sentence)
    worst = max(p[i] for i in close)
    why = f"p = {worst:.2g}" if worst >= ALPHA else "an interval has a zero"
    names = _listed([others[i] for i in close])
    sentence = f"no clear winner: {leader} leads, but not surely over {names} ({why})."
    return Verdict(condition, leader, False, sentence)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else "")


def _beside(records: Sequence[Record], judging: Judging) -> dict[str, float | None]:
    """Means over seeds of the fairness and calibration of the compared metric."""
    sections = [r["metrics"].get(judging.section, {}) for r in records]
    own = [s[judging.metric] for s in sections if judging.metric in s]
    spread = judging.section != "global"  # one test set has no spread over clients
    return {
        "worst10": _mean(m["worst10"] for m in own) if spread else None,
        "gini": _mean(m["gini"] for m in own) if spread else None,
        "ece": _mean(s["ece"]["mean"] for s in sections if "ece" in s),
        "round": _mean(r["round"] for r in records),
    }


def _ledger(records: Sequence[Record]) -> dict[str, float]:
    names = records[0]["ledger"]
    return {name: _mean(r["ledger"][name] for r in records) or 0.0 for name in names}


def _more(label: str, groups: Mapping[str, Sequence[Record]], made: Comparison) -> str:
    """What a method used more of than its budget or the baseline, in words."""
    mine, base = _ledgers(label, groups, made)
    words = []
    budget: Budget = made.budget
    for name in LEDGER:
        limit = budget.amount if name == budget.kind and budget.amount is not None else None
        if limit is not None and mine[name] > limit:
            words.append(f"{_times(mine[name] / limit)} the budget of {name}")
        elif base is not None and label != made.baseline and mine[name] > MORE * base[name]:
            ratio = _times(mine[name] / base[name]) if base[name] else "more than"
            words.append(f"{ratio} the {name} of {made.baseline}")
    return " and ".join(words)


def _less(label: str, groups: Mapping[str, Sequence[Record]], made: Comparison) -> str:
    """What a method left of a budget of samples or bytes, in words."""
    mine, base = _ledgers(label, groups, made)
    kind = made.budget.kind
    if kind == "rounds" or (made.budget.amount is None and base is None):
        return ""
    limit = made.budget.amount or (base or {}).get(kind, 0.0)
    share = mine[kind] / limit if limit else 1.0
    return f"only {100 * share:.2g} % of the budget of {kind}" if share < LESS else ""


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


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times" if ratio >= MORE else f"{100 * (ratio - 1):.2g} % more than"


def _notes(made: Comparison, lines: Sequence[Line]) -> list[str]:
    """What a reader must know about the tests."""
    if not lines:
        return []
    judging, n = made.judging, max(line.summary.n for line in lines)
    if n < 2:
        return ["One seed: no spread, no interval and no test; raise compare.seeds."]
    test = TESTS[judging.test]
    kind = "Student's t" if judging.interval == "t" else "the bootstrap"
    spread = f"Mean ± standard deviation over {n} seeds; 95 % intervals by {kind}"
    if not any(line.versus for line in lines):
        begun = any(line.label == made.baseline for line in lines)
        why = "there is no other method" if begun else f"nothing of {made.baseline} is finished"
        return [f"{spread}; no test, since {why}."]
    notes = [
        f"{spread}; p by the {test} on differences to {made.baseline} with the same seed, "
        "Holm-corrected over the methods."
    ]
    others = len(made.labels) - 1
    least = others * least_p(n, judging.test)
    if least >= ALPHA:
        among = "" if others == 1 else f" and {others} differences"
        notes.append(
            f"With {n} seeds{among} {test} cannot give less than p = {min(least, 1.0):.2g}; use "
            f"at least {2 + math.floor(math.log2(others / ALPHA))} seeds."
        )
    if judging.interval == "bootstrap" and n < FEW:
        notes.append(
            f"The bootstrap's intervals are too narrow with fewer than {FEW} seeds; "
            "compare.interval = 't' has wider ones."
        )
    return notes


def _missing(made: Comparison, lines: Sequence[Line]) -> list[str]:
    """Which methods lack seeds."""
    there = {(line.label, line.condition): line.summary.n for line in lines}
    few: list[str] = []
    for condition in made.conditions if lines else []:
        for label, n in _asked(made, condition).items():
            found = there.get((label, condition), 0)
            if found < n:
                few.append(f"{label} on {condition} has {found or 'none'} of {n} seeds")
    return [f"Missing: {_listed(few)}. Tests use the seeds that both methods have."] if few else []


def _mean(values: Iterable[float | None]) -> float | None:
    found = [v for v in values if v is not None]
    return sum(found) / len(found) if found else None
