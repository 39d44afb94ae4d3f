"""Run a comparison from its current state to its tables."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from unalike import rng
from unalike.compare.analysis.claims import analyse
from unalike.compare.analysis.lines import Analysis
from unalike.compare.analysis.results import Results, begun, finished
from unalike.compare.execution import folder as place
from unalike.compare.execution.budget import within
from unalike.compare.execution.schedule import Schedule
from unalike.compare.execution.view import Silent, View
from unalike.compare.execution.worker import Event, Job
from unalike.compare.presentation import frames
from unalike.compare.presentation.tables import tables
from unalike.compare.specification.settings import Budget
from unalike.compare.specification.spec import Cell, Comparison
from unalike.compare.specification.variants import SHARED
from unalike.engine.simulation.ranks import Ranks
from unalike.engine.threads import lone
from unalike.errors import ConfigError, RunError, UnalikeError
from unalike.federation.data import Federation
from unalike.run.autotuning.trials import MEASURED, settled
from unalike.run.configuration.config import Config
from unalike.run.experiment.build import federation
from unalike.run.experiment.cadence import AUTO
from unalike.run.experiment.counting import work
from unalike.run.experiment.program import program
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task
from unalike.run.folder.environment import cores
from unalike.run.folder.records import alone, dumps, write
from unalike.run.interrupts import interrupts
from unalike.tables.latex import latex
from unalike.tables.markdown import markdown
from unalike.tasks import Task


class Stopped(KeyboardInterrupt):
    """The user asked to stop; the comparison can be continued."""

    def __init__(self, folder: Path, done: int, total: int) -> None:
        """With so many cells done."""
        super().__init__(
            f"stopped, {done} of {total} cells done; continue with: unalike compare {folder}"
        )


class Outcome(NamedTuple):
    """The result of a comparison."""

    analysis: Analysis
    failed: dict[str, str]  # cell -> why

    def check(self, folder: Path) -> None:
        """Raise one sentence if a cell failed."""
        if not self.failed:
            return
        first, why = next(iter(self.failed.items()))
        others = f" and {len(self.failed) - 1} more" if len(self.failed) > 1 else ""
        again = f"; try again with: unalike compare {folder}"
        if (folder / "cells" / first / "summary.json").is_file():
            again = ""  # it would end the same way; the reason says what helps
        raise RunError(f"cell '{first}'{others} failed: {why.rstrip('.')}{again}.")


def conduct(
    made: Comparison, folder: Path, processes: int = 0, view: View | None = None
) -> Outcome:
    """Run the unfinished cells, write the tables, and say what may be said.

    Args:
        made: What to compare, its cells placed in the folder.
        folder: The comparison's folder.
        processes: Cells at a time; 0 takes one for each core, or one in all on a GPU.
        view: Who watches.
    """
    with alone(folder):
        return conduct_held(ready(made, folder), folder, processes, view)


def conduct_held(
    made: Comparison,
    folder: Path,
    processes: int = 0,
    view: View | None = None,
    ranks: Ranks | None = None,
) -> Outcome:
    """``conduct`` for what is ``ready``, in a folder that the caller has locked.

    With ``ranks`` other processes compute their share of the cells, wherever they are.
    """
    results, watching = Results(made, folder), view or Silent()
    if ranks is not None:
        own = _share(results.left, ranks)
        _run(made, folder, results, own, processes or _processes(made, ranks), watching)
        ranks.exchange(b"")  # the others have done theirs
        for cell in results.left:
            if finished(folder, cell):
                results.add(cell)
    if left := results.left:
        _run(made, folder, results, left, processes or _processes(made, ranks), watching)
    return Outcome(conclude(made, folder, results), results.failed)


def lend_a_hand(made: Comparison, folder: Path, processes: int, ranks: Ranks) -> None:
    """Run this process's share of the cells; the first process collects the results."""
    jobs = [_job(made, folder, cell) for cell in _share(Results(made, folder).left, ranks)]
    with interrupts(lambda: None) as asked:
        Schedule(processes or _processes(made, ranks), lambda event: None, asked).run(jobs)
    ranks.exchange(b"")


def _share(cells: list[Cell], ranks: Ranks) -> list[Cell]:
    """Every n-th cell."""
    return cells[ranks.rank :: ranks.size]


def conclude(made: Comparison, folder: Path, results: Results) -> Analysis:
    """Write the tables of what is finished."""
    results.save()
    records = results.records
    analysis = analyse(made, records)
    if records:
        shown = tables(made, analysis)
        write(folder / "table.md", markdown(shown, made.judging.question))
        write(folder / "table.tex", latex(shown))
        frames.save(folder, made, records, analysis)
    write(folder / "statistics.json", dumps(frames.statistics(made, analysis), indent=1))
    return analysis


def ready(made: Comparison, folder: Path) -> Comparison:
    """Refuse what cannot work among the cells that have not begun; nothing is written.

    The comparison that is returned says how often each condition is evaluated. If the folder
    already says so, that counts: methods that are added later are evaluated in the rounds of the
    others.
    """
    new = [c for c in made.cells if not begun(folder, c)]
    known = place.read(folder) if place.is_comparison(folder) else made
    found = preflight(new, made.budget, made.baselines, known.engines)
    decided = {**found.cadence, **made.cadence, **known.cadence}
    cadence = {c: decided[c] for c in made.conditions if c in decided}
    engines = {c: {**found.engines.get(c, {}), **known.engines.get(c, {})} for c in made.conditions}
    return replace(made, cadence=cadence, engines={c: some for c, some in engines.items() if some})


class Decided(NamedTuple):
    """What is decided once for cells that are compared."""

    cadence: dict[str, int]  # condition -> rounds that pay for an evaluation
    engines: dict[str, dict[str, dict[str, Any]]]  # condition -> method -> settings of the engine


def preflight(
    cells: list[Cell],
    budget: Budget,
    baselines: Mapping[tuple[str, int], Cell] | None = None,
    known: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Decided:
    """Refuse what cannot work before anything long begins: one cell of each kind is built.

    With the baselines, whose use may set the budget, a budget that buys too few rounds is refused.
    The rounds between evaluations under a condition are those of the method that is evaluated least
    often: methods are compared in rounds in which all are evaluated. The fastest way of computing
    each kind of cell is measured here, unless it is ``known``.
    """
    every: dict[str, int] = {}
    engines: dict[str, dict[str, dict[str, Any]]] = {}
    seen: set[tuple[str, str]] = set()
    key, data, tasks = "", None, dict[str, Task]()
    for cell in sorted(cells, key=lambda c: c.condition):
        if (cell.label, cell.condition) in seen:
            continue
        seen.add((cell.label, cell.condition))
        try:
            before, (key, data) = key, _federation(cell, key, data)
            if key != before:
                tasks.clear()
            made = _task(cell.config, data, tasks)
            due = _build(cell.config, data, budget, made)
            if cell.config.evaluation.every == AUTO:
                every[cell.condition] = max(due, every.get(cell.condition, 1))
            if baselines is not None and budget.kind != "rounds":
                _afford(cell, data, budget, baselines[cell.condition, cell.seed])
            if baselines is not None and cell.label not in known.get(cell.condition, {}):
                with lone():  # a cell has one core
                    found = settled(cell.config, data, made).engine
                if found != cell.config.engine:
                    chosen = {k: getattr(found, k) for k in MEASURED}
                    engines.setdefault(cell.condition, {})[cell.label] = chosen
        except UnalikeError as error:
            raise type(error)(f"method '{cell.label}' on '{cell.condition}': {error}") from None
    return Decided(every, engines)


def _build(config: Config, data: Federation, budget: Budget, made: Task) -> int:
    """How many rounds pay for an evaluation; refuses what cannot be built."""
    stages, draft = program(config, made, Shape.of(data))
    if budget.kind != "rounds" and sum(stage.rounds for stage in stages) != config.rounds:
        raise ConfigError(
            f"the {budget.kind} of a run whose stages each have all {config.rounds} rounds "
            "cannot be computed beforehand; compare it at equal rounds, or set method.encoder."
        )
    w = draft.task.init(rng.key(0))
    return work(config, data, draft, stages[-1].recipe, w).every(config.rounds)


def _afford(cell: Cell, data: Federation, budget: Budget, baseline: Cell) -> None:
    """Count the rounds of a method that one round is not enough for, which takes its time."""
    config = cell.config
    try:
        one = config.model_copy(update={"rounds": 1})
        program(one, task(config, data.examples), Shape.of(data))
    except ConfigError:
        within(config, budget, baseline.config)


def _federation(cell: Cell, key: str, data: Federation | None) -> tuple[str, Federation]:
    """The cell's data, made again only if the last cell had others."""
    config = cell.config.resolved()
    mine = dumps([config[name] for name in SHARED])
    if data is None or mine != key:
        data = federation(cell.config)
    return mine, data


def _task(config: Config, data: Federation, known: dict[str, Task]) -> Task:
    """What is learned; methods that train one model on one federation share it."""
    resolved, how = config.resolved(), (config.run.buffers, config.run.init)
    key = dumps([resolved[name] for name in ("model", "engine", "seed")] + [*how])
    if key not in known:
        known[key] = task(config, data.examples)
    return known[key]


def _run(
    made: Comparison,
    folder: Path,
    results: Results,
    some: list[Cell],
    processes: int,
    view: View,
) -> None:
    """Run some of what is left."""
    cells, processes = {c.id: c for c in made.cells}, min(processes, max(len(some), 1))

    def hear(event: Event) -> None:
        value = None
        if event.kind == "begin":
            results.begin(cells[event.id])
        if event.kind == "done":
            (folder / "errors" / f"{event.id}.txt").unlink(missing_ok=True)
            try:
                value = results.add(cells[event.id])["value"]
            except RunError as error:
                event = Event("failed", event.id, text=str(error))
        if event.kind == "failed":
            results.fail(cells[event.id], event.text)
        view.hear(event, cells[event.id], value)

    done = {r["id"]: r["value"] for r in results.records}
    view.begin(made, done, processes)
    try:
        with interrupts(view.stopping) as asked:
            Schedule(processes, hear, asked).run([_job(made, folder, c) for c in some])
            stopped = asked()
    except KeyboardInterrupt:
        stopped = True
    finally:
        view.end()
    if stopped and any(c.id not in results.known for c in some):
        results.save()
        raise Stopped(folder, len(results.known), len(made.cells))


def _job(made: Comparison, folder: Path, cell: Cell) -> Job:
    base = made.baselines[cell.condition, cell.seed]
    return Job(
        cell.id,
        str(folder / cell.folder),
        cell.config.resolved(),
        made.budget,
        base.config.resolved(),
        str(folder / "errors"),
        made.cadence.get(cell.condition, 0),
        made.engines.get(cell.condition, {}).get(cell.label),
    )


def _processes(made: Comparison, ranks: Ranks | None = None) -> int:
    on_gpu = any(c.config.engine.device != "cpu" for c in made.cells)
    return 1 if on_gpu else max(1, cores() // (1 if ranks is None else ranks.local))
