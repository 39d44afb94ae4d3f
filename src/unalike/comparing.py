"""Comparisons and reports from Python: of files and folders, and of results that are in memory."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unalike.compare import folder as place
from unalike.compare.conduct import conduct_held, ready
from unalike.compare.lines import Analysis
from unalike.compare.spec import Comparison, loads, text_of
from unalike.compare.tables import tables
from unalike.errors import ConfigError, DataError
from unalike.report.html import page
from unalike.result import Result
from unalike.run.toml import as_toml
from unalike.tables.html import html
from unalike.tables.model import Table


@dataclass(frozen=True)
class Compared:
    """What a comparison came to; in a notebook it shows its tables."""

    folder: Path
    made: Comparison
    analysis: Analysis

    @property
    def tables(self) -> list[Table]:
        """As the command prints them."""
        return tables(self.made, self.analysis)

    def _repr_html_(self) -> str:
        """The tables."""
        shown = [html(t, f"unalike-{i}", sortable=False) for i, t in enumerate(self.tables)]
        return "\n".join(["<div>", *shown, "</div>"])


def comparison(
    what: str | Path | Mapping[str, Any], folder: str | Path = "", *, processes: int = 0
) -> Compared:
    """Compare methods on partitions over seeds, as ``unalike compare`` does, without its output.

    Args:
        what: A TOML file, or what would stand in one: ``{"data": "digits", "compare": {"methods":
            ["fedavg", "fedprox"], "seeds": 3}}``.
        folder: Where the runs go, which may hold the same comparison half done; left out,
            ``runs/compare-`` and the name of the file.
        processes: Runs at a time; 0: one for each core.
    """
    if isinstance(what, Mapping):
        text, name = as_toml(what), "python"
    else:
        text, name = text_of(Path(what)), Path(what).stem
    made, at = loads(text, name), Path(folder or f"runs/compare-{name}")
    with place.held(made, at, text, lambda: ready(made, at)) as placed:
        outcome = conduct_held(placed, at, processes)
    outcome.check(at)
    return Compared(at, placed, outcome.analysis)


def write_report(
    what: str | Path | Result | Compared | Sequence[Result] | Mapping[str, Result],
    output: str | Path = "",
) -> Path:
    """Write the report of a folder, or of results in memory, as one HTML file.

    Args:
        what: The folder of a run, of a comparison or of several runs; a comparison; a result, a
            list of results, or results by name.
        output: The file; left out, ``report.html`` in the folder, or here for results in memory.
    """
    if isinstance(what, Compared):
        what = what.folder
    if isinstance(what, str | Path):
        return page.write_report(what, output or None)
    if isinstance(what, Result):
        what = [what]
    named = what if isinstance(what, Mapping) else {str(i): r for i, r in enumerate(what, 1)}
    if not named:
        raise DataError("there is nothing to report: give a result at least.")
    for name, result in named.items():
        if not isinstance(result, Result):
            raise ConfigError(f"'{name}' must be a result of train, got {type(result).__name__}.")
    with tempfile.TemporaryDirectory() as folder:
        for name, result in named.items():
            result.save(Path(folder) / "runs" / name.replace("/", "-"))
        runs = Path(folder) / "runs"
        one = runs / next(iter(named)).replace("/", "-") if len(named) == 1 else runs
        return page.write_report(one, Path(output or "report.html"))
