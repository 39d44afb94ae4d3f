"""A folder of many runs in one sentence and one table, instead of a line for each run."""

from collections.abc import Sequence

from unalike.errors import counted
from unalike.metrics.catalogue import SECTIONS, head
from unalike.report.records import Place, Record, Study
from unalike.report.series import section_of
from unalike.tables.cells import score, words
from unalike.tables.model import Cell, Table

MANY = 6  # runs that have a sentence each

Done = Sequence[tuple[Place, Record]]  # runs and their summaries


def in_one_sentence(study: Study, done: Done) -> str:
    """How many runs of what there are."""
    seeds = sorted({len(scores) for scores in _by_place(study, done).values()})
    repeated = counted(seeds[-1], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    finished = sum(run.finished for _, run in study.begun)
    return (
        f"{counted(len(study.places), 'run')}, {finished} of them finished: "
        f"{counted(len(study.methods), 'method')} under "
        f"{counted(len(study.partitions), 'condition')}, {repeated} each. The first table of "
        "the results shows their outcome."
    )


def overview(study: Study, done: Done) -> Table:
    """Conditions down, methods across: means over seeds of the selected round."""
    section, found = section_of(study), _by_place(study, done)
    rows = [
        [words(condition), *(_mean(found.get((m, condition), []), study) for m in study.methods)]
        for condition in study.partitions
    ]
    where = SECTIONS.get(section, section)
    title = f"All runs: {head(study.metric)} on {where}, mean over seeds"
    return Table(title, ["condition", *study.methods], rows)


def _by_place(study: Study, done: Done) -> dict[tuple[str, str], list[float]]:
    """(method, condition) -> the number of each seed."""
    section, found = section_of(study), dict[tuple[str, str], list[float]]()
    for place, summary in done:
        chosen = summary["selected"] or summary["last"]
        value = chosen.get(section, {}).get(study.metric, {}).get(study.statistic)
        if value is not None:
            found.setdefault((place.method, place.partition), []).append(float(value))
    return found


def _mean(values: Sequence[float], study: Study) -> Cell:
    mean = score(sum(values) / len(values) if values else None, study.metric)
    return mean if len(values) < 2 else mean._replace(mark=f" (n = {len(values)})")
