"""Small comparisons, and finished ones without any training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unalike.compare.analysis.results import Results
from unalike.compare.execution.conduct import _job, conclude
from unalike.compare.specification.spec import Comparison, comparison, loads
from unalike.run.execute import Observer, Silent

TABLES = ("results.jsonl", "table.md", "table.tex", "cells.csv", "summary.csv", "statistics.json")
TINY = """
rounds = 3
[data]
name = "digits"
[partition]
name = "dirichlet"
clients = 4
min_size = 10
[model]
name = "mlp"
hidden = [4]
[run]
checkpoint_every = 1
"""


def tiny(compare: str, extra: str = "") -> Comparison:
    """A comparison of quick runs; ``compare`` is what stands below [compare]."""
    return loads(f"{TINY}{extra}\n[compare]\n{compare}", "tiny")


def asked(methods: Sequence[str] = ("a", "b"), **compare: Any) -> Comparison:
    """A comparison that is never run: FedAvg under several labels."""
    entries = [{"name": "fedavg", "label": m} for m in methods]
    return comparison({"compare": {"methods": entries, "seeds": 5, **compare}})


def records(
    made: Comparison,
    values: Mapping[str, Sequence[float | None]],
    ledgers: Mapping[str, Mapping[str, float]] | None = None,
) -> list[dict[str, Any]]:
    """Results of a comparison: for each label its values over the seeds, under every condition."""
    out = []
    for cell in made.cells:
        seeds = list(dict.fromkeys(c.seed for c in made.cells))
        row = values.get(cell.label, [])
        i = seeds.index(cell.seed)
        if i >= len(row):
            continue
        value, section = row[i], made.judging.section
        spread = {"mean": value, "worst10": 0.4, "gini": 0.1, "best10": 0.9}
        ledger = {"rounds": 5, "samples": 100.0, "bytes": 1000}
        out.append(
            {
                "id": cell.id,
                "label": cell.label,
                "method": cell.method,
                "partition": cell.partition,
                "condition": cell.condition,
                "seed": cell.seed,
                "sweep": cell.sweep,
                "value": value,
                "round": 5,
                "ledger": ledger | dict((ledgers or {}).get(cell.label, {})),
                "metrics": {section: {made.judging.metric: spread, "ece": {"mean": 0.05}}},
            }
        )
    return out


def files(folder: Path, *names: str) -> dict[str, bytes]:
    """The bytes of some files."""
    return {name: (folder / name).read_bytes() for name in names}


def run_here(made: Comparison, folder: Path, observer: Observer | None = None) -> None:
    """Run what is left in this process, and write the tables."""
    results = Results(made, folder)
    for cell in results.left:
        _job(made, folder, cell).run(observer or Silent())
        results.add(cell)
    conclude(made, folder, results)
