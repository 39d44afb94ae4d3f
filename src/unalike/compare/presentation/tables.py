"""The tables of a comparison.

A bold number is the best of its condition and proven so (see ``analysis``). A star marks a
significant difference to the baseline, a dagger a method that used more than its share, a double
dagger one that left some of it, a section mark numbers that were chosen by the rows they are of.
"""

from collections.abc import Mapping, Sequence

from unalike.compare.analysis.lines import OVERALL, Analysis, Line, Speed, Versus
from unalike.compare.presentation import wording
from unalike.compare.specification.spec import Comparison
from unalike.compare.statistics.summary import Summary
from unalike.metrics.catalogue import head, metric
from unalike.tables.cells import count, decimal, score, size, words
from unalike.tables.format import NOTHING, interval, number, probability, signed
from unalike.tables.format import decimal as written
from unalike.tables.model import Cell, Table

STAR, DAGGER, DOUBLE, SECTION = "*", "†", "‡", "§"
MUCH = 1000.0  # times what the baseline needs
RESULTS = ("win", "equal", "open", "loss")
EMPTY = Cell(None, NOTHING)


def tables(made: Comparison, analysis: Analysis) -> list[Table]:
    """All of them: methods by conditions, then every condition with its scores and differences."""
    out = [pivot(made, analysis)] if len(made.conditions) > 1 else []
    if any(line.versus for line in analysis.overall):
        out.append(differences(made, analysis.overall, OVERALL).filled())
        if any(line.speed for line in analysis.overall):
            out.append(speeds(made, analysis.overall, OVERALL))
    for condition in made.conditions:
        lines = analysis.at(condition)
        if lines:
            out.append(scores(made, analysis, condition))
        if any(line.versus for line in lines):
            out.append(differences(made, lines, condition))
        if any(line.speed and line.versus for line in lines):
            out.append(speeds(made, lines, condition))
    return out


def pivot(made: Comparison, analysis: Analysis) -> Table:
    """Methods down, conditions and their mean across, ranks, and each method's results."""
    rows = []
    whole = {line.label: line for line in analysis.overall}
    for i, label in enumerate(made.labels):
        lines = {line.condition: line for line in analysis.of(label)}
        if not lines:
            continue
        numbers = [_score(lines.get(c), made.judging.metric) for c in made.conditions]
        numbers.append(_score(whole.get(label), made.judging.metric))
        if analysis.ranks is not None:
            numbers.append(decimal(float(analysis.ranks.mean[i]), 2))
        last = EMPTY if label == made.baseline else _tally([*lines.values()])
        rows.append([_method([*lines.values()]), *numbers, last])
    notes = [f"{v.condition}: {wording.told(v, made, analysis)}" for v in analysis.verdicts]
    notes += [f"{g.condition}: {wording.gamma(g)}" for g in analysis.gammas]
    notes += [*_legend(made), *wording.notes(made, analysis), *_used(made, analysis.lines)]
    rank = [] if analysis.ranks is None else ["mean rank"]
    if analysis.ranks is not None:
        notes.append(wording.ranked(analysis.ranks, len(made.conditions)))
    columns = ["method", *made.conditions, OVERALL, *rank, "/".join(RESULTS)]
    return Table(_title(made), columns, rows, notes)


def scores(made: Comparison, analysis: Analysis, condition: str) -> Table:
    """One condition: the compared number, its spread over clients, calibration, and the ledger."""
    lines, name = analysis.at(condition), made.judging.metric
    calibrated = any(line.beside["ece"] is not None for line in lines)
    rows = [
        [
            _method([line]),
            _score(line, name),
            *([score(line.beside["best_on_test"], name)] if made.judging.best_on_test else []),
            score(line.beside["worst10"], name, "worst10"),
            score(line.beside["gini"], name, "gini"),
            *([score(line.beside["ece"], "ece")] if calibrated else []),
            size(line.ledger["bytes"]),
            count(line.ledger["samples"]),
            decimal(line.ledger["rounds"], 0),
        ]
        for line in lines
    ]
    where = f"On {condition}: " if len(made.conditions) > 1 else ""  # or equal notes merge
    said = [wording.told(v, made, analysis) for v in analysis.verdicts if v.condition == condition]
    said += [wording.gamma(g) for g in analysis.gammas if g.condition == condition]
    notes = [where + sentence for sentence in said]
    notes += [f"{SECTION} {wording.best_on_test(made)}"] if made.judging.best_on_test else []
    notes += [*_legend(made), *wording.notes(made, analysis), *_used(made, lines)]
    spread = [head(name, "worst10"), head(name, "gini"), *([head("ece")] if calibrated else [])]
    peeked = [f"best on test {SECTION}"] if made.judging.best_on_test else []
    columns = ["method", head(name), *peeked, *spread, "sent", "samples", "rounds"]
    return Table(_title(made, condition), columns, rows, notes)


def differences(made: Comparison, lines: Sequence[Line], condition: str) -> Table:
    """One condition: every method against the baseline, seed by seed."""
    name = made.judging.metric
    rows = [
        [
            words(line.label),
            _interval(line.summary, name),
            *_versus(line.versus, name),
            words(line.outcome) if line.outcome else EMPTY,
        ]
        for line in lines
    ]
    better = "more" if metric(name).higher else "less"
    title = f"{head(name)} against {made.baseline}, {better} is better"
    tested = ["difference", "p (Holm)", "least found", "result"]
    return Table(_title(made, condition, title), ["method", "95 % interval", *tested], rows)


def speeds(made: Comparison, lines: Sequence[Line], condition: str) -> Table:
    """One condition: how soon every method reached the target, in rounds and in bytes.

    And in seconds of the simulated clock, where there is one.
    """
    rows = []
    shown_as = {"rounds": _rounds, "bytes": size, "seconds": _seconds}
    kinds = [kind for kind in shown_as if kind in lines[0].speed]
    base = next((line.speed for line in lines if line.label == made.baseline), {})
    for line in lines:
        cells = [words(line.label)]
        for kind in kinds:
            shown, found = shown_as[kind], line.speed[kind]
            few = f" ({found.reached}/{found.of})" if _missed(found) else ""
            spent, ratio = shown(found.spent), _ratio(found, _missed(base.get(kind)))
            cells += [spent._replace(mark=few), ratio, Cell(found.p, probability(found.p))]
            cells.append(words(found.outcome) if found.outcome else EMPTY)
        rows.append(cells)
    columns = ["method", "rounds", "ratio", "p (Holm)", "result"]
    for kind in kinds[1:]:
        first = "sent" if kind == "bytes" else kind
        columns += [first, f"ratio of {kind}", f"p of {kind}", f"result in {kind}"]
    until = " and ".join(", ".join(kinds).rsplit(", ", 1))
    title = f"{until} to {wording.goal(made)}"
    return Table(_title(made, condition, title), columns, rows, [wording.speed(made)])


def spread(summary: Summary, metric: str) -> str:
    """Mean ± standard deviation; the mean alone if there is only one seed."""
    mean = number(summary.mean, metric)
    return mean if summary.std is None else f"{mean} ± {number(summary.std, metric)}"


def difference(mean: float, low: float | None, high: float | None, name: str) -> Cell:
    """With its sign and interval."""
    text = signed(mean, name)
    if low is None or high is None:
        return Cell(mean, text)
    if metric(name).share:  # a difference of shares cannot lie outside
        low, high = max(low, -1.0), min(high, 1.0)
    return Cell(mean, f"{text} {interval(low, high, name)}")


def _versus(found: Versus | None, metric: str) -> list[Cell]:
    if found is None:
        return [EMPTY] * 3
    return [
        difference(found.mean, found.low_corrected, found.high_corrected, metric),
        Cell(found.p_corrected, probability(found.p_corrected)),
        _least(found.detectable, metric),
    ]


def _least(value: float | None, name: str) -> Cell:
    """What would be found; no two shares differ by more than all."""
    if value is not None and value > 1 and metric(name).share:
        return Cell(value, "over 100")
    return score(value, name)


def _missed(found: Speed | None) -> bool:
    """Whether the target was missed under some seed."""
    return found is not None and found.reached < found.of


def _ratio(found: Speed, missed: bool = False) -> Cell:
    """A bound where one of both would have needed more than it had; ``missed`` by the baseline."""
    if found.ratio is None:
        return EMPTY
    bound = {(True, False): "≥ ", (False, True): "≤ ", (True, True): "≈ "}
    shown = bound.get((_missed(found), missed), "") + _times(found.ratio)
    if found.low is not None or found.high is not None:
        low = "(0" if found.low is None else f"[{_times(found.low)}"
        shown += f" {low}, {_highest(found.high)}"
    return Cell(found.ratio, shown)


def _highest(high: float | None) -> str:
    """The upper end of a ratio's interval."""
    if high is None:
        return "∞)"
    return f"{_times(high)}]" if high < MUCH else "over 1000]"


def _times(ratio: float) -> str:
    """With two decimals, or one more where these alone would say that nothing differs."""
    shown, exact = written(ratio, 2), written(ratio, 3)
    return shown if shown != "1.00" or exact == "1.000" else exact


def _rounds(spent: float | None) -> Cell:
    return decimal(spent, 0)


def _seconds(spent: float | None) -> Cell:
    return decimal(spent, 1)


def _score(line: Line | None, metric: str) -> Cell:
    if line is None or not line.summary.n:
        return EMPTY
    few = f" (n = {line.summary.n})" if line.summary.n < line.asked else ""
    mark = (STAR if line.differs else "") + few
    return Cell(line.summary.mean, spread(line.summary, metric), line.best, mark)


def _interval(s: Summary, name: str) -> Cell:
    low, high = s.low, s.high
    if low is None or high is None:
        return EMPTY
    if metric(name).share:  # a mean of shares cannot lie outside
        low, high = max(low, 0.0), min(high, 1.0)
    return Cell(low, interval(low, high, name))


def _tally(lines: Sequence[Line]) -> Cell:
    """How often each result came out; sorted by how many more were won than lost."""
    outcomes = [str(line.outcome) for line in lines]
    counts = [outcomes.count(result) for result in RESULTS]
    return Cell(counts[0] - counts[-1], "/".join(map(str, counts)))


def _title(made: Comparison, *parts: str) -> str:
    return ": ".join(part for part in (made.judging.title, *parts) if part) or "Comparison"


def _legend(made: Comparison) -> list[str]:
    """What the numbers are, and what the marks mean."""
    marks = (
        "Bold: significantly better than every other method. "
        f"{STAR}: differs from {made.baseline} (corrected p < 0.05)."
    )
    return [wording.legend(made), marks]


def _method(lines: Sequence[Line]) -> Cell:
    marks = DAGGER * any(line.more for line in lines) + DOUBLE * any(line.less for line in lines)
    return words(lines[0].label, f" {marks}" if marks else "")


def _used(made: Comparison, lines: Sequence[Line]) -> list[str]:
    """Footnotes on methods that used more, or less, than their share."""
    return [
        *_footnotes(DAGGER, lines, [wording.more(line, made) for line in lines]),
        *_footnotes(DOUBLE, lines, [wording.less(line) for line in lines]),
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
        alike.setdefault(_where(said, everywhere), []).append(label)
    return [f"{mark} {', '.join(labels)} used {words}." for words, labels in alike.items()]


def _where(said: Mapping[str, Sequence[str]], everywhere: int) -> str:
    return "; ".join(
        what if len(where) == everywhere else f"{what} ({', '.join(where)})"
        for what, where in said.items()
    )
