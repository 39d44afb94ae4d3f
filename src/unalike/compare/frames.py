"""Results as data frames, for CSV and Parquet."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unalike.compare.analysis import Analysis

if TYPE_CHECKING:
    import polars as pl


def cells(records: Iterable[dict[str, Any]]) -> "pl.DataFrame":
    """One row a cell: what it was, every metric of its chosen round, its ledger."""
    import polars as pl

    rows = []
    for r in records:
        row = {k: r[k] for k in ("id", "label", "method", "partition", "condition", "seed")}
        row |= {"sweep": json.dumps(r["sweep"]), "round": r["round"], "value": r["value"]}
        row |= {k: float(v) for k, v in r["ledger"].items()}
        for section, metrics in r["metrics"].items():
            for metric, numbers in metrics.items():
                row |= {f"{section}_{metric}_{k}": _number(v) for k, v in numbers.items()}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def summary(analysis: Analysis) -> "pl.DataFrame":
    """One row a method and condition, with intervals, tests and mean ledger."""
    import polars as pl

    return pl.DataFrame([_row(line) for line in lines(analysis)], infer_schema_length=None)


def lines(analysis: Analysis) -> list[dict[str, Any]]:
    """The lines of an analysis as plain data."""
    return [
        {
            "label": line.label,
            "condition": line.condition,
            "values": {str(seed): value for seed, value in line.values.items()},
            **line.summary._asdict(),
            "versus": None if line.versus is None else line.versus._asdict(),
            "p_corrected": line.p,
            "outcome": line.outcome,
            "best": line.best,
            "more": line.more,
            "less": line.less,
            **line.beside,
            "ledger": line.ledger,
        }
        for line in analysis.lines
    ]


def save(folder: Path, records: Iterable[dict[str, Any]], analysis: Analysis) -> None:
    """cells and summary, as CSV and Parquet."""
    for name, frame in (("cells", cells(records)), ("summary", summary(analysis))):
        frame.write_csv(folder / f"{name}.csv")
        frame.write_parquet(folder / f"{name}.parquet")


def _row(line: dict[str, Any]) -> dict[str, Any]:
    versus = line["versus"] or {}
    row = {k: v for k, v in line.items() if k not in ("values", "versus", "ledger")}
    row |= {f"difference_{k}": versus.get(k) for k in ("n", "mean", "low", "high", "p", "effect")}
    return row | line["ledger"]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
