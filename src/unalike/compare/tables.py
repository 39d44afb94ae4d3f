"""The tables of a comparison as text, before anything is known of the medium.

A bold number is the best of its condition and proven so (see ``analysis``). A star marks a
significant difference to the baseline, a dagger a method that used more than its share, a double
dagger one that left some of it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from unalike.compare.analysis import Analysis, Line, higher
from unalike.compare.spec import Comparison
from unalike.compare.statistics import Paired, Summary

NOTHING = "—"
STAR, DAGGER, DOUBLE = "*", "†", "‡"
SHARES = frozenset({"accuracy", "top5", "precision", "recall", "f1", "auroc"})  # shown in per cent
NAMES = {"f1": "F1", "auroc": "AUROC", "ece": "ECE", "mce": "MCE", "top5": "top-5 accuracy"}
TESTS = {"local": "clients' own test data", "global": "global test data", "new": "new clients"}


class Entry(NamedTuple):
    """One cell of a table."""

    text: str
    bold: bool = False


class Grid(NamedTuple):
    """One table: a column of names, then columns of numbers."""

    title: str
    columns: list[str]
    rows: list[list[Entry]]
    notes: list[str]


def grids(made: Comparison, analysis: Analysis) -> list[Grid]:
    """All tables: methods by conditions, then every condition with its scores and differences."""
    out = [pivot(made, analysis)] if len(made.conditions) > 1 else []
    for condition in made.conditions:
        if analysis.at(condition):
            out.append(scores(made, analysis, condition))
            if any(line.versus for line in analysis.at(condition)):
                out.append(differences(made, analysis, condition))
    return out


def pivot(made: Comparison, analysis: Analysis) -> Grid:
    """Methods down, conditions across, and each method's wins, ties and losses."""
    rows = []
    for label in made.labels:
        lines = {line.condition: line for line in analysis.of(label)}
        if not lines:
            continue
        numbers = [_score(lines.get(c), made.judging.metric) for c in made.conditions]
        outcomes = [line.outcome for line in lines.values()]
        tally = "/".join(str(outcomes.count(o)) for o in ("win", "tie", "loss"))
        last = Entry(NOTHING if label == made.baseline else tally)
        rows.append([Entry(_marked([*lines.values()])), *numbers, last])
    notes = [f"{v.condition}: {v.sentence}" for v in analysis.verdicts]
    notes += [*_legend(made), *analysis.notes, *_used(analysis.lines)]
    columns = ["method", *made.conditions, "win/tie/loss"]
    return Grid(_title(made), columns, rows, notes)


def scores(made: Comparison, analysis: Analysis, condition: str) -> Grid:
    """One condition: the compared number, its spread over clients, calibration, and the ledger."""
    lines, metric = analysis.at(condition), made.judging.metric
    rows = [
        [
            Entry(_marked([line])),
            _score(line, metric),
            Entry(number(line.beside["worst10"], metric)),
            Entry(plain(line.beside["gini"], 3)),
            Entry(plain(line.beside["ece"], 3)),
            Entry(size(line.ledger["bytes"])),
            Entry(count(line.ledger["samples"])),
            Entry(f"{line.ledger['rounds']:.0f}"),
        ]
        for line in lines
    ]
    notes = [v.sentence for v in analysis.verdicts if v.condition == condition]
    notes += [*_legend(made), *analysis.notes, *_used(lines)]
    columns = ["method", name(metric), "worst 10 %", "Gini", "ECE", "sent", "samples", "rounds"]
    return Grid(_title(made, condition), columns, rows, notes)


def differences(made: Comparison, analysis: Analysis, condition: str) -> Grid:
    """One condition: every method against the baseline, seed by seed."""
    metric, rows = made.judging.metric, []
    for line in analysis.at(condition):
        v, s = line.versus, line.summary
        rows.append(
            [
                Entry(line.label),
                Entry(_interval(s, metric)),
                Entry(NOTHING if v is None else _difference(v, metric)),
                Entry(NOTHING if line.p is None else probability(line.p)),
                Entry(NOTHING if v is None or v.effect is None else f"{v.effect:+.2f}"),
                Entry(line.outcome or NOTHING),
            ]
        )
    better = "more" if higher(metric) else "less"
    title = f"{name(metric)} against {made.baseline}, {better} is better"
    columns = [
        "method",
        "95 % interval",
        "difference",
        "p (Holm)",
        "effect",
        "result",
    ]
    return Grid(_title(made, condition, title), columns, rows, [])


def name(metric: str) -> str:
    """The metric with its unit."""
    return f"{NAMES.get(metric, metric)} %" if metric in SHARES else NAMES.get(metric, metric)


def number(value: float | None, metric: str) -> str:
    """A value of the metric: per cent with two decimals, or four decimals."""
    if value is None or math.isnan(value):
        return NOTHING
    return f"{100 * value:.2f}" if metric in SHARES else f"{value:.4f}"


def plain(value: float | None, decimals: int) -> str:
    """A number without a unit."""
    return NOTHING if value is None or math.isnan(value) else f"{value:.{decimals}f}"


def probability(p: float) -> str:
    """A p-value."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def size(amount: float) -> str:
    """A number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def count(amount: float) -> str:
    """A large number in few characters."""
    for unit in ("", "k", "M", "G"):
        if amount < 999.5:
            return f"{amount:.3g}{unit}"
        amount /= 1000
    return f"{amount:.3g}T"


def spread(summary: Summary, metric: str) -> str:
    """Mean ± standard deviation; the mean alone if there is only one seed."""
    mean = number(summary.mean, metric)
    return mean if summary.std is None else f"{mean} ± {number(summary.std, metric)}"


def _score(line: Line | None, metric: str) -> Entry:
    if line is None or not line.summary.n:
        return Entry(NOTHING)
    star = STAR if line.differs else ""
    few = f" (n = {line.summary.n})" if line.summary.n < line.asked else ""
    return Entry(spread(line.summary, metric) + star + few, line.best)


def _interval(s: Summary | Paired, metric: str) -> str:
    low, high = s.low, s.high
    if low is None or high is None:
        return NOTHING
    if isinstance(s, Summary) and metric in SHARES:  # no mean of shares lies outside
        low, high = max(low, 0.0), min(high, 1.0)
    return f"[{number(low, metric)}, {number(high, metric)}]"


def _difference(v: Paired, metric: str) -> str:
    """With its sign and interval."""
    text = number(v.mean, metric)
    sign = "" if text.startswith("-") or text == NOTHING else "+"
    return f"{sign}{text}" if v.low is None else f"{sign}{text} {_interval(v, metric)}"


def _title(made: Comparison, *parts: str) -> str:
    return ": ".join(part for part in (made.judging.title, *parts) if part) or "Comparison"


def _legend(made: Comparison) -> list[str]:
    """What the numbers are, at which budget, and what the marks mean."""
    j, budget = made.judging, made.budget
    which = "the round selected on validation data" if j.round == "selected" else "the last round"
    how = "" if j.statistic == "mean" else f" ({j.statistic.replace('_', ' ')} over clients)"
    what = name(j.metric).removesuffix(" %")
    words = {"rounds": "rounds", "samples": "local samples", "bytes": "bytes"}[budget.kind]
    amount = ""
    if budget.amount is not None:
        text = size(budget.amount) if budget.kind == "bytes" else count(budget.amount)
        amount = f" ({text})"
    equal = "methods set their own rounds" if own_rounds(made) else f"at equal {words}{amount}"
    return [
        f"{what[0].upper()}{what[1:]}{how} on {TESTS[j.section]} in {which}, {equal}.",
        f"Bold: best, and surely so. {STAR}: differs from {made.baseline} (corrected p < 0.05).",
    ]


def own_rounds(made: Comparison) -> bool:
    """Whether rounds are what methods get the same of, but some of them set their own."""
    rounds: dict[str, set[int]] = {}
    for cell in made.cells:
        rounds.setdefault(cell.condition, set()).add(cell.config.rounds)
    return made.budget.kind == "rounds" and any(len(found) > 1 for found in rounds.values())


def _marked(lines: Sequence[Line]) -> str:
    marks = DAGGER * any(line.more for line in lines) + DOUBLE * any(line.less for line in lines)
    return f"{lines[0].label} {marks}".rstrip()


def _used(lines: Sequence[Line]) -> list[str]:
    """Footnotes on methods that used more, or less, than their share."""
    return [
        *_footnotes(DAGGER, lines, [line.more for line in lines]),
        *_footnotes(DOUBLE, lines, [line.less for line in lines]),
    ]


def _footnotes(mark: str, lines: Sequence[Line], uses: Sequence[str]) -> list[str]:
    """One for all methods of the same use; conditions are named where they differ."""
    out: dict[str, dict[str, list[str]]] = {}
    for line, use in zip(lines, uses, strict=True):
        if use:
            out.setdefault(line.label, {}).setdefault(use, []).append(line.condition)
    everywhere = len({line.condition for line in lines})
    alike: dict[str, list[str]] = {}
    for label, said in out.items():
        words = [
            what if len(where) == everywhere else f"{what} ({', '.join(where)})"
            for what, where in said.items()
        ]
        alike.setdefault("; ".join(words), []).append(label)
    return [f"{mark} {', '.join(labels)} used {words}." for words, labels in alike.items()]
