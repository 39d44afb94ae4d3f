"""The tables of results and of costs: a comparison's own, or one made from single runs."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from unalike.compare import folder as comparison
from unalike.compare.analysis import Line, analyse
from unalike.compare.results import collect
from unalike.compare.tables import (
    NOTHING,
    TESTS,
    Entry,
    Grid,
    count,
    differences,
    name,
    number,
    pivot,
    plain,
    scores,
    size,
)
from unalike.report.html.sheets import Sheet, sheet
from unalike.report.records import Record, Run, Study

SPREAD = ("mean", "std", "worst10", "gini")  # of the metric the study looks at
HEADS = {"std": "std", "worst10": "worst 10 %", "gini": "Gini"}
BESIDE = ("accuracy", "loss", "f1", "auroc", "ece", "reconstruction", "kl")  # their means
NO_RESULT = "No run has come to its result yet."  # though rounds were evaluated
NOTES = 5  # different ones of a method
RARE = ("across", "refused", "skipped", "noted")  # columns left out where there is nothing in them


class Results(NamedTuple):
    """What was found: in sentences, over all conditions, and condition by condition.

    There are no sentences only if nothing has been evaluated.
    """

    sentences: list[str]
    overview: Sheet | None
    by_partition: dict[str, list[Sheet]]
    notes: list[str]
    unusable: dict[str, str]  # finished cells without the compared number, and why


def results(study: Study) -> Results:
    """The tables of a study, from the cells that are finished."""
    return _compared(study) if study.kind == "compare" else _single(study)


def _compared(study: Study) -> Results:
    made = comparison.read(study.folder)
    known, unusable = collect(made, study.folder)
    found = list(known.values())
    if not found:
        begun = any(run.evaluated for _, run in study.begun)
        return Results([NO_RESULT] if begun else [], None, {}, [], unusable)
    analysis = analyse(made, found)
    labels = study.methods
    verdicts = {v.condition: v.sentence for v in analysis.verdicts}
    sentences = [
        f"{condition}: {verdicts.get(condition) or _undecided(lines)}"
        for condition in made.conditions
        if (lines := analysis.at(condition))
    ]
    tables: dict[str, list[Sheet]] = {}
    notes: list[str] = []
    for condition in made.conditions:
        lines = analysis.at(condition)
        if not lines:
            continue
        grid = scores(made, analysis, condition)
        said = [n for n in grid.notes if not any(n in s for s in sentences)]
        notes += [n for n in said if n not in notes]
        grids = [(grid._replace(notes=[]), f"Scores and costs on {condition}")]
        if len(lines) > 1:
            against = differences(made, analysis, condition)
            grids.append((against, f"Difference to {made.baseline}, seed by seed, on {condition}"))
        tables[condition] = [sheet(g, labels, caption) for g, caption in grids]
    overview = None
    if len(tables) > 1:
        grid = pivot(made, analysis)._replace(notes=[])
        overview = sheet(grid, labels, f"{name(study.metric)} of every method on every partition")
    return Results(sentences, overview, tables, notes, unusable)


def _undecided(lines: Sequence[Line]) -> str:
    """Why a condition with results has no verdict."""
    there = [line.label for line in lines if line.values]
    if not there:
        return "no run has a number to compare."
    if len(there) == 1:
        return f"only {there[0]} has results, so there is nothing to compare them with."
    return "no seed has results of all these methods, so none of them leads."


def _single(study: Study) -> Results:
    tables: dict[str, list[Sheet]] = {}
    metric = study.metric
    columns = [(metric, how) for how in SPREAD] + [(m, "mean") for m in BESIDE if m != metric]
    heads = ["method", "seed", "round", "test data"]
    heads += [HEADS.get(how) or name(m) for m, how in columns]
    for partition in study.partitions:
        rows = [
            row
            for cell, run in study.begun
            if cell.partition == partition and run.summary is not None
            for row in _tests(run.summary, [cell.method, str(cell.seed)], columns)
        ]
        if rows:
            used = [j for j in range(len(heads)) if any(row[j].text != NOTHING for row in rows)]
            grid = Grid("", [heads[j] for j in used], [[row[j] for j in used] for row in rows], [])
            tables[partition] = [sheet(grid, study.methods, f"Results on {partition}")]
    done = [(cell, run.summary) for cell, run in study.begun if run.summary is not None]
    sentences = [_sentence(cell.method, summary, metric) for cell, summary in done]
    notes = [
        f"The selected round is chosen on {on}; test data take no part in it."
        for on in dict.fromkeys(summary["selected_on"] for _, summary in done)
    ]
    if done:
        notes.append(
            "Mean, standard deviation and worst tenth are over clients. Single runs say nothing "
            "about chance: repeat them with other seeds (unalike compare)."
        )
    return Results(sentences, None, tables, notes, {})


def _tests(summary: Record, head: list[str], columns: list[tuple[str, str]]) -> list[list[Entry]]:
    rows = []
    for which in ("selected", "last"):
        chosen = summary[which]
        if chosen is None or (which == "last" and chosen == summary["selected"]):
            continue
        for section, test in TESTS.items():
            if section not in chosen:
                continue
            spread = section != "global"  # one test set has no spread over clients
            cells = [
                _cell(chosen[section].get(metric, {}).get(statistic), metric, statistic)
                if spread or statistic == "mean"
                else NOTHING
                for metric, statistic in columns
            ]
            texts = [*head, f"{chosen['round']} ({which})", test.removesuffix(" test data"), *cells]
            rows.append([Entry(text) for text in texts])
    return rows


def _cell(value: float | None, metric: str, statistic: str) -> str:
    return plain(value, 3) if statistic == "gini" else number(value, metric)


def _sentence(label: str, summary: Record, metric: str) -> str:
    which = "selected" if summary["selected"] else "last"
    chosen = summary[which]
    words = [
        f"{number(chosen[s][metric]['mean'], metric)} on {text}"
        for s, text in TESTS.items()
        if metric in chosen.get(s, {})
    ]
    found = f"{label}, {which} round {chosen['round']}: {name(metric)} {', '.join(words)}."
    return found + _reached(summary.get("target"), metric)


def _reached(target: Record | None, metric: str) -> str:
    if target is None or metric not in target:
        return ""
    goal = f" {number(target[metric], metric)} on {TESTS[target['section']]} was"
    if target["round"] is None:
        return f"{goal} not reached."
    return f"{goal} reached in round {target['round']} after {size(target['bytes'])}."


def ledger(study: Study) -> Sheet:
    """What every method used on every partition so far, on average over its runs."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for cell, run in study.begun:
        groups.setdefault((cell.method, cell.partition), []).append(run)
    rows = {place: [_use(run) for run in runs] for place, runs in groups.items()}
    means = {
        place: {name: sum(use[name] for use in uses) / len(uses) for name in uses[0]}
        for place, uses in rows.items()
    }
    shown = [
        name
        for name in (next(iter(means.values())) if means else ())
        if name not in RARE or any(mean[name] for mean in means.values())
    ]
    lines = [
        [
            Entry(method),
            Entry(partition),
            Entry(str(len(rows[method, partition]))),
            *(Entry(_amount(name, mean[name])) for name in shown),
        ]
        for (method, partition), mean in means.items()
    ]
    columns = ["method", "partition", "runs", *shown]
    absent = [name for name in RARE if name not in shown]
    notes = [f"Means over runs. Nothing to report under: {', '.join(absent)}."] if absent else []
    notes.append("Peak: bytes of the busiest round.")
    notes += [note for (method, _), runs in groups.items() for note in _noted(method, runs)]
    return sheet(Grid("", columns, lines, notes), study.methods, "What every method used")


def regrets(study: Study) -> Sheet | None:
    """The regret of every method that learns its weights online, on average over its runs."""
    found: dict[tuple[str, str], list[Record]] = {}
    for cell, run in study.begun:
        if run.summary is not None and "regret" in run.summary:
            found.setdefault((cell.method, cell.partition), []).append(run.summary["regret"])
    if not found:
        return None
    rows = []
    for (method, partition), told in found.items():
        value, bound = (sum(t[key] for t in told) / len(told) for key in ("value", "bound"))
        texts = [method, partition, str(len(told)), plain(value, 3), plain(bound, 3)]
        rows.append([Entry(text) for text in texts])
    columns = ["method", "partition", "runs", "regret", "bound"]
    notes = [
        "Means over runs, after the last round. Less is better; below 0 the changing weights "
        "beat all fixed ones."
    ]
    return sheet(Grid("", columns, rows, notes), study.methods, "Regret of the weights")


def _noted(method: str, runs: list[Run]) -> list[str]:
    """What a method had to say of its rounds, the most frequent first."""
    said = Counter(note for run in runs for r in run.rounds for note in r.get("notes", ()))
    return [f"{method}: {note} ({n} rounds)." for note, n in said.most_common(NOTES)]


def _use(run: Run) -> dict[str, float]:
    sent = {way: sum(r[f"bytes_{way}"] for r in run.rounds) for way in ("down", "up", "across")}
    return {
        "rounds": len(run.rounds),
        "sent": sum(sent.values()),
        **sent,
        "peak": (run.summary or {}).get("bytes_peak", 0),
        "messages": sum(r["messages"] for r in run.rounds),
        "samples": sum(r.get("samples", 0) for r in run.rounds),
        "refused": sum(len(r["rejected"]) for r in run.rounds),
        "skipped": sum(bool(r["skipped"]) for r in run.rounds),
        "noted": sum(bool(r.get("notes")) for r in run.rounds),
        "seconds": run.seconds,
    }


def _amount(name: str, value: float) -> str:
    if name in ("sent", "down", "up", "across", "peak"):
        return size(value)
    return f"{value:.1f}" if name == "seconds" else count(value)


def clients(rows: list[Record], most: int) -> Sheet | None:
    """Every client, or the worst if there are too many to read."""
    if not rows:
        return None
    columns = list(rows[0])
    order = sorted(rows, key=lambda r: r.get("accuracy") or 0.0) if len(rows) > most else rows
    formats = {"accuracy": "accuracy", "F1": "f1"}
    heads = {"accuracy": "accuracy %", "F1": "F1 %"}

    def text(column: str, value: float | str | None) -> str:
        if value is None or isinstance(value, str):
            return NOTHING if value is None else value
        if isinstance(value, int):
            return f"{value:,}"
        return number(value, formats[column]) if column in formats else plain(value, 4)

    grid = Grid(
        "",
        [heads.get(c, c) for c in columns],
        [[Entry(text(c, row[c])) for c in columns] for row in order[:most]],
        [f"The {most} clients with the lowest accuracy of {len(rows):,}."]
        if len(rows) > most
        else [],
    )
    return sheet(
        grid, (), "Every client after the last evaluation" if len(rows) <= most else "Clients"
    )
