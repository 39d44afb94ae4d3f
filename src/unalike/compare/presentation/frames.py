"""Results as tables for programs, in CSV and Parquet: all digits, names as records have them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unalike.compare.analysis.lines import Analysis, Line, Versus
from unalike.compare.presentation import wording
from unalike.compare.specification.spec import Comparison
from unalike.run.folder.records import write
from unalike.tables.csv import csv
from unalike.tables.model import Cell, Table


def cells(records: Iterable[Mapping[str, Any]]) -> Table:
    """One row a cell: what it was, every metric of its chosen round, its ledger."""
    rows = []
    for r in records:
        row = {k: r[k] for k in ("id", "label", "method", "partition", "condition", "seed")}
        row |= {"sweep": json.dumps(r["sweep"]), "round": r["round"], "value": r["value"]}
        row |= {k: float(v) for k, v in r["ledger"].items()}
        for section, metrics in r["metrics"].items():
            for metric, numbers in metrics.items():
                row |= {f"{section}_{metric}_{k}": _number(v) for k, v in numbers.items()}
        rows.append(row)
    return _table(rows)


def summary(made: Comparison, analysis: Analysis) -> Table:
    """One row a method and condition, with intervals, tests and mean ledger."""
    found = (*analysis.lines, *analysis.overall)
    return _table([_row(_plain(made, line)) for line in found])


def _plain(made: Comparison, line: Line) -> dict[str, Any]:
    """A line of an analysis as plain data."""
    return {
        "label": line.label,
        "condition": line.condition,
        "values": {str(seed): value for seed, value in line.values.items()},
        **line.summary._asdict(),
        "versus": None if line.versus is None else line.versus._asdict(),
        "outcome": line.outcome,
        "best": line.best,
        "more": wording.more(line, made),
        "less": wording.less(line),
        "clients": [list(pair) for pair in line.judged],
        **line.beside,
        "speed": {kind: speed._asdict() for kind, speed in line.speed.items()},
        "ledger": line.ledger,
    }


def statistics(made: Comparison, analysis: Analysis) -> dict[str, Any]:
    """The whole analysis as plain data, with its sentences."""
    verdicts = [
        {
            "condition": v.condition,
            "leader": v.leader,
            "clear": v.clear,
            "sentence": wording.sentence(v),
        }
        for v in analysis.verdicts
    ]
    ranks = analysis.ranks
    return {
        "lines": [_plain(made, line) for line in analysis.lines],
        "overall": [_plain(made, line) for line in analysis.overall],
        "verdicts": verdicts,
        "gamma": {g.condition: g._asdict() for g in analysis.gammas},
        "ranks": None
        if ranks is None
        else {
            "mean": dict(zip(made.labels, ranks.mean.tolist(), strict=True)),
            "critical_difference": ranks.apart,
            "p": ranks.p,
        },
        "notes": wording.notes(made, analysis),
    }


def save(
    folder: Path, made: Comparison, records: Iterable[Mapping[str, Any]], analysis: Analysis
) -> None:
    """cells and summary, as CSV and Parquet."""
    import polars as pl

    for name, table in (("cells", cells(records)), ("summary", summary(made, analysis))):
        write(folder / f"{name}.csv", csv(table))
        columns = {
            head: [row[j].value for row in table.rows] for j, head in enumerate(table.columns)
        }
        pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of unlike keys: a cell that a row lacks is empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Table(
        "",
        columns,
        [[Cell(v, "" if v is None else str(v)) for v in map(row.get, columns)] for row in rows],
    )


def _row(line: dict[str, Any]) -> dict[str, Any]:
    versus, nested = line["versus"] or {}, ("values", "versus", "clients", "speed", "ledger")
    row = {k: v for k, v in line.items() if k not in nested}
    row |= {f"difference_{k}": versus.get(k) for k in Versus._fields}
    row |= {f"{kind}_to_target": speed["spent"] for kind, speed in line["speed"].items()}
    row |= {f"{kind}_ratio": speed["ratio"] for kind, speed in line["speed"].items()}
    return row | line["ledger"]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
