"""The tables of results and of costs: a comparison's own, or one made from single runs."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from unalike.compare.analysis.claims import analyse
from unalike.compare.analysis.lines import OVERALL, Analysis, Line
from unalike.compare.analysis.results import collect
from unalike.compare.presentation import wording
from unalike.compare.presentation.tables import differences, pivot, scores, speeds
from unalike.compare.specification.spec import Comparison
from unalike.errors import counted
from unalike.metrics.catalogue import METRICS, TESTS, head, main_metric, metric
from unalike.report import outcome
from unalike.report.html import many
from unalike.report.records import Record, Run, Study
from unalike.report.skew import cell as skew_cell
from unalike.tables.cells import count, decimal, score, size, whole, words
from unalike.tables.format import whole as written
from unalike.tables.format import with_unit
from unalike.tables.model import Cell, Table

NO_RESULT = "No run has a result yet."  # though rounds were evaluated
NOTES = 5  # different ones of a method
RARE = {  # columns left out where there is nothing in them, and what they count
    "across": "bytes between servers",
    "simulated s": "simulated seconds",
    "refused": "refused answers",
    "skipped": "skipped rounds",
    "noted": "notes",
}
SENT = ("sent", "down", "up", "across", "peak")  # columns of bytes


class Results(NamedTuple):
    """What was found: in sentences, over all conditions, and condition by condition.

    There are no sentences only if nothing has been evaluated.
    """

    sentences: list[str]
    overview: list[Table]
    by_partition: dict[str, list[Table]]
    notes: list[str]
    unusable: dict[str, str]  # finished cells without the compared number, and why
    analysis: Analysis | None = None  # of a comparison with results


def results(study: Study) -> Results:
    """The tables of a study, from the runs that are finished."""
    return _single(study) if study.asked is None else _compared(study, study.asked)


def _compared(study: Study, made: Comparison) -> Results:
    known, unusable = collect(made, study.folder)
    found = list(known.values())
    if not found:
        begun = any(run.evaluated for _, run in study.begun)
        return Results([NO_RESULT] if begun else [], [], {}, [], unusable)
    analysis = analyse(made, found)
    verdicts = {v.condition: wording.told(v, made, analysis) for v in analysis.verdicts}
    sentences = [
        f"{condition}: {verdicts.get(condition) or _undecided(lines)}"
        for condition in made.conditions
        if (lines := analysis.at(condition))
    ]
    if OVERALL in verdicts:
        sentences.insert(0, f"{OVERALL}: {verdicts[OVERALL]}")
    tables: dict[str, list[Table]] = {}
    notes: list[str] = []
    for condition in made.conditions:
        lines = analysis.at(condition)
        if not lines:
            continue
        table = scores(made, analysis, condition)
        verdict = verdicts.get(condition)  # is among the sentences already
        said = [n for n in table.notes if n not in (verdict, f"On {condition}: {verdict}")]
        notes += [n for n in said if n not in notes]
        shown = [table._replace(title=f"Scores and costs on {condition}", notes=())]
        if len(lines) > 1:
            title = f"Difference from {made.baseline}, seed by seed, on {condition}"
            shown.append(differences(made, lines, condition)._replace(title=title))
        if any(line.speed and line.versus for line in lines):
            table = speeds(made, lines, condition)
            notes += [n for n in table.notes if n not in notes]
            title = f"How soon the target is reached on {condition}"
            shown.append(table._replace(title=title, notes=()))
        tables[condition] = shown
    overview = _overview(made, analysis) if len(tables) > 1 else []
    return Results(sentences, overview, tables, notes, unusable, analysis)


def _overview(made: Comparison, analysis: Analysis) -> list[Table]:
    """Methods by partitions, and the differences over all of them."""
    title = f"Every method on every partition: {head(made.judging.metric)}"
    out = [pivot(made, analysis)._replace(title=title, notes=())]
    if any(line.versus for line in analysis.overall):
        title = f"Difference from {made.baseline}, seed by seed, over {OVERALL}"
        out.append(differences(made, analysis.overall, OVERALL)._replace(title=title).filled())
        if any(line.speed for line in analysis.overall):
            title = f"How soon the target is reached over {OVERALL}"
            table = speeds(made, analysis.overall, OVERALL)
            out.append(table._replace(title=title, notes=()))
    return out


def _undecided(lines: Sequence[Line]) -> str:
    """Why a condition with results has no verdict."""
    there = [line.label for line in lines if line.values]
    if not there:
        return "no run has a number to compare."
    if len(there) == 1:
        return f"only {there[0]} has results, so there is nothing to compare them with."
    return "no seed has results for all these methods, so none of them leads."


def _single(study: Study) -> Results:
    tables: dict[str, list[Table]] = {}
    name = study.metric
    heads = ["method", "seed", "round", "test", *outcome.columns(name).values()]
    for partition in study.partitions:
        rows = [
            [words(place.method), decimal(place.seed, 0), *row]
            for place, run in study.begun
            if place.partition == partition and run.summary is not None
            for row in _tests(run.summary, name)
        ]
        if rows:
            tables[partition] = [Table(f"Results on {partition}", heads, rows).filled()]
    done = [(place, run.summary) for place, run in study.begun if run.summary is not None]
    several = len(study.partitions) > 1
    sentences = [
        f"{place.partition}: {said}" if several else said
        for place, summary in done
        for said in [_sentence(place.method, summary, name)]
    ]
    shown = []
    if len(done) > many.MANY:
        sentences, shown = [many.in_one_sentence(study, done)], [many.overview(study, done)]
    notes = [
        f"The selected round is chosen on {on}; test data take no part in it."
        for on in dict.fromkeys(summary["selected_on"] for _, summary in done)
    ]
    for _, summary in done:
        chosen = summary["selected"] or summary["last"]
        told = [n for s in outcome.distinct(chosen) for n in outcome.left_out(chosen[s], s)]
        notes += [note for note in told if note not in notes]
    if done:
        notes.append(
            "Mean, standard deviation and worst tenth are over clients. Single runs say nothing "
            "about chance: repeat them with other seeds (unalike compare)."
        )
    return Results(sentences, shown, tables, notes, {})


def _tests(summary: Record, name: str) -> list[list[Cell]]:
    """The tests of the selected round, and of the last if that is another."""
    rows = []
    for which in ("selected", "last"):
        chosen = summary[which]
        if chosen is None or (which == "last" and chosen == summary["selected"]):
            continue
        t = Cell(chosen["round"], f"{chosen['round']} ({which})")
        for section in outcome.distinct(chosen):
            found = outcome.judged(chosen[section], section, name)
            rows.append([t, words(TESTS[section]), *found])
    return rows


def _sentence(label: str, summary: Record, name: str) -> str:
    which = "selected" if summary["selected"] else "last"
    chosen = summary[which]
    said = [
        f"{with_unit(chosen[s][name]['mean'], name)} on {TESTS[s]}"
        for s in outcome.distinct(chosen)
        if name in chosen[s]
    ]
    title = metric(name).title
    found = f"{label}, {which} round {chosen['round']}: {title} {', '.join(said)}."
    more = [outcome.reached(summary["target"])] if "target" in summary else []
    more += outcome.leaked(summary)
    return " ".join([found, *(f"{said[0].upper()}{said[1:]}." for said in more)])


def ledger(study: Study) -> Table:
    """What every method used on every partition so far, on average over its runs."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for place, run in study.begun:
        groups.setdefault((place.method, place.partition), []).append(run)
    means = {where: _mean_use(runs) for where, runs in groups.items()}
    shown = [
        name
        for name in (next(iter(means.values())) if means else ())
        if name not in RARE or any(mean[name] for mean in means.values())
    ]
    rows = [
        [
            words(method),
            words(partition),
            whole(len(groups[method, partition])),
            *(_amount(name, mean[name]) for name in shown),
        ]
        for (method, partition), mean in means.items()
    ]
    absent = [what for name, what in RARE.items() if name not in (*shown, "simulated s")]
    notes = ["Means over runs. There were no " + " and no ".join(absent) + "."] if absent else []
    notes.append("Peak: bytes of the busiest round.")
    notes += [note for (method, _), runs in groups.items() for note in _noted(method, runs)]
    return Table("What every method used", ["method", "partition", "runs", *shown], rows, notes)


def regrets(study: Study) -> Table | None:
    """The regret of every method that learns its weights online, on average over its runs."""
    found: dict[tuple[str, str], list[Record]] = {}
    for place, run in study.begun:
        if run.summary is not None and "regret" in run.summary:
            found.setdefault((place.method, place.partition), []).append(run.summary["regret"])
    if not found:
        return None
    rows = []
    for (method, partition), told in found.items():
        means = [sum(t[key] for t in told) / len(told) for key in ("value", "bound")]
        numbers = [whole(len(told)), *(decimal(mean, 3) for mean in means)]
        rows.append([words(method), words(partition), *numbers])
    columns = ["method", "partition", "runs", "regret", "bound"]
    note = (
        "Means over runs, after the last round. Less is better; below 0 the changing weights "
        "beat all fixed ones."
    )
    return Table("Regret of the weights", columns, rows, [note])


def _noted(method: str, runs: list[Run]) -> list[str]:
    """What a method had to say of its rounds, the most frequent first."""
    said = Counter(note for run in runs for r in run.rounds for note in r.get("notes", ()))
    return [f"{method}: {note} ({counted(n, 'round')})." for note, n in said.most_common(NOTES)]


def _mean_use(runs: Sequence[Run]) -> dict[str, float]:
    uses = [_use(run) for run in runs]
    return {name: sum(use[name] for use in uses) / len(uses) for name in uses[0]}


def _use(run: Run) -> dict[str, float]:
    sent = {way: sum(r[f"bytes_{way}"] for r in run.rounds) for way in ("down", "up", "across")}
    return {
        "rounds": len(run.rounds),
        "sent": sum(sent.values()),
        **sent,
        "peak": (run.summary or {}).get("bytes_peak", 0),
        "messages": sum(r["messages"] for r in run.rounds),
        "samples": sum(r.get("samples", 0) for r in run.rounds),
        "simulated s": sum(r.get("clock", 0.0) for r in run.rounds),
        "refused": sum(len(r["rejected"]) for r in run.rounds),
        "skipped": sum(bool(r["skipped"]) for r in run.rounds),
        "noted": sum(bool(r.get("notes")) for r in run.rounds),
        "seconds": run.seconds,
    }


def _amount(name: str, value: float) -> Cell:
    if name in SENT:
        return size(value)
    return decimal(value, 1) if name in ("seconds", "simulated s") else count(value)


def clients(rows: list[Record], most: int) -> Table | None:
    """Every client, or the worst if there are too many to read."""
    if not rows:
        return None
    names = list(rows[0])
    heads = [head(name) if name in METRICS else name for name in names]
    if len(rows) <= most:
        cells = [[_of_client(name, row[name]) for name in names] for row in rows]
        return Table("Every client after the last evaluation", heads, cells)
    main = main_metric(names)
    sign, end = (1, "lowest") if metric(main).higher else (-1, "highest")
    worst = sorted(rows, key=lambda row: sign * (row.get(main) or 0.0))[:most]
    cells = [[_of_client(name, row[name]) for name in names] for row in worst]
    note = f"The {most} clients with the {end} {metric(main).title} of {written(len(rows))}."
    return Table("Clients", heads, cells, [note])


def _of_client(name: str, value: float | str | None) -> Cell:
    if isinstance(value, str):
        return words(value)
    if name in METRICS:
        return score(value, name)
    if name in ("EMD", "MMD"):
        return skew_cell(name.lower(), value)
    return decimal(value, 4) if name == "last weight" else whole(value)
