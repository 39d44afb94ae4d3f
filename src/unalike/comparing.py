"""Comparisons and reports from Python: of files and folders, and of what is in memory."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from unalike.algorithms.method import Method
from unalike.compare.analysis.lines import Analysis
from unalike.compare.execution import folder as place
from unalike.compare.execution.conduct import conduct_held, ready
from unalike.compare.execution.view import Progress, Silent
from unalike.compare.execution.worker import Event
from unalike.compare.presentation.tables import tables
from unalike.compare.specification.spec import Cell, Comparison, loads, text_of
from unalike.data_file import data_table
from unalike.errors import ConfigError, DataError
from unalike.notebook import Bar
from unalike.report.html import page
from unalike.result import Result
from unalike.run.configuration.toml import as_toml
from unalike.tables.html import html
from unalike.tables.model import Table, new_notes
from unalike.tables.terminal import plain_text


@dataclass(frozen=True, repr=False)
class Compared:
    """The result of a comparison; in a notebook it shows its tables."""

    folder: Path
    made: Comparison
    analysis: Analysis

    @property
    def tables(self) -> list[Table]:
        """As the command prints them."""
        return tables(self.made, self.analysis)

    def __repr__(self) -> str:
        """The tables as text."""
        return plain_text(self.tables)

    def _repr_html_(self) -> str:
        """The tables."""
        said: set[str] = set()
        tables = [table._replace(notes=new_notes(table, said)) for table in self.tables]
        shown = [html(t, f"unalike-{i}", sortable=False) for i, t in enumerate(tables)]
        return "\n".join(["<div>", *shown, "</div>"])


class _Watching(Silent):
    """A bar in a notebook."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown

    def begin(self, made: Comparison, done: dict[str, float | None], processes: int) -> None:
        self.progress, self.bar = Progress(made, done), Bar(len(made.cells), self.shown)

    def hear(self, event: Event, cell: Cell, value: float | None) -> None:
        p = self.progress
        p.hear(event, cell, value)
        left = f", about {p.remaining} left" if p.remaining else ""
        said = f"{len(p.values)} of {len(p.made.cells)} runs done{left}"
        self.bar.update(len(p.values) + sum(p.at.values()), said)


def compare(
    what: Any,
    model: str | Mapping[str, Any] = "",
    methods: Sequence[str | Mapping[str, Any]] = (),
    *,
    label: str = "",
    client: str = "",
    seeds: int = 0,
    folder: str | Path = "",
    processes: int = 0,
    progress: bool = True,
    **settings: Any,
) -> Compared:
    """Compare methods over seeds, as ``unalike compare`` does; a notebook shows a bar meanwhile.

    Every run is a separate process and leaves a folder, so the same call continues a comparison
    that was stopped, and ``unalike.report`` can show it. Data from memory are written beside that
    folder, as ``data-*.parquet`` or ``data-*.npz``, and stay there.

    Args:
        what: Data: the name of a dataset, a file, a pandas or polars frame, arrays ``(x, y)`` or
            ``(x, y, groups)``, or arrays by client. Or the whole comparison: a TOML file, or its
            contents, ``{"data": "digits", "compare": {"methods": ["fedavg", "scaffold"], "seeds":
            3}}``, which leaves out all arguments but the last four.
        model: The name of a model, or its table.
        methods: Their names or tables: ``["fedavg", {"name": "fedprox", "mu": 0.1}]``; the others
            are compared with the first.
        label: The column to predict, if the data are a table.
        client: The column that names each row's client; without it a partitioner splits the rows.
        seeds: How many seeds to repeat everything with; 0: ten.
        folder: Where the runs go; by default ``runs/compare-`` and a name.
        processes: How many runs at a time; 0: one per core.
        progress: Whether a notebook shows a progress bar.
        settings: The other tables of a configuration: ``rounds=30``, ``partition={...}``,
            ``local={"lr": 0.1}``, ``compare={"partitions": [...]}``; ``data={"missing": "impute"}``
            says how a table is read.
    """
    if methods:
        _refuse_objects(model, methods)
        name, at = "python", Path(folder or "runs/compare-python")
        raw = _raw(data_table(what, at.parent, label, client), model, methods, seeds, settings)
        text = as_toml(raw)
    elif model or label or client or seeds or settings:
        raise ConfigError("give methods to compare on data, or write them into the comparison.")
    elif isinstance(what, Mapping):
        text, name = as_toml(what), "python"
    elif isinstance(what, str | Path):
        text, name = text_of(Path(what)), Path(what).stem
    else:
        raise ConfigError(f"give methods to compare on this {type(what).__name__}.")
    made, at = loads(text, name), Path(folder or f"runs/compare-{name}")
    with place.held(made, at, text, lambda new: ready(new, at)) as placed:
        outcome = conduct_held(placed, at, processes, _Watching(progress))
    outcome.check(at)
    return Compared(at, placed, outcome.analysis)


def _raw(
    data: dict[str, Any],
    model: str | Mapping[str, Any],
    methods: Sequence[str | Mapping[str, Any]],
    seeds: int,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """The comparison as a file would hold it."""
    data = {**data, **settings.pop("data", {})}
    varied = {"methods": list(methods), **settings.pop("compare", {})}
    varied |= {"seeds": seeds} if seeds else {}
    raw = {"data": data, "partition": "natural" if "client" in data else "dirichlet", **settings}
    return {**raw, **({"model": model} if model else {}), "compare": varied}


def _refuse_objects(model: Any, methods: Sequence[Any]) -> None:
    """What is made in this process cannot be used by others."""
    found = [("model", "module", "Net")] if isinstance(model, nn.Module) else []
    if any(isinstance(method, Method | type) for method in methods):
        found.append(("method", "own", "Mine"))
    for what, name, attribute in found:
        raise ConfigError(
            f"runs of a comparison are separate processes: name your {what} by its file, "
            f"{{'name': '{name}', 'file': 'mine.py', 'attribute': '{attribute}'}}."
        )


def report(
    what: str | Path | Result | Compared | Sequence[Result] | Mapping[str, Result],
    output: str | Path = "",
) -> Path:
    """Write the report of a folder, or of results in memory, as one HTML file.

    Args:
        what: The folder of a run, of a comparison or of several runs; a comparison; a result, a
            list of results, or results by name.
        output: The file; by default ``report.html`` in the folder, or in the current one for
            results in memory.
    """
    if isinstance(what, Compared):
        what = what.folder
    if isinstance(what, str | Path):
        return page.write_report(what, output or None)
    if isinstance(what, Result):
        what = [what]
    if not isinstance(what, Mapping | Sequence):
        raise ConfigError(
            f"a report takes a folder, a comparison or results of train, got {type(what).__name__}."
        )
    named: Mapping[str, Any] = (
        what if isinstance(what, Mapping) else {str(i): r for i, r in enumerate(what, 1)}
    )
    if not named:
        raise DataError("there is nothing to report: give at least one result.")
    for name, result in named.items():
        if not isinstance(result, Result):
            raise ConfigError(f"'{name}' must be a result of train, got {type(result).__name__}.")
    with tempfile.TemporaryDirectory() as folder:
        for name, result in named.items():
            result.save(Path(folder) / "runs" / str(name).replace("/", "-"))
        runs = Path(folder) / "runs"
        one = runs / str(next(iter(named))).replace("/", "-") if len(named) == 1 else runs
        return page.write_report(one, Path(output or "report.html"))
