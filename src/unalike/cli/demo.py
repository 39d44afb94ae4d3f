"""``unalike demo``: three methods on unalike digits, ending in a table and two plots."""

from pathlib import Path
from typing import Any

from rich.console import Console

from unalike.cli.training import View, numbers, size
from unalike.errors import RunError
from unalike.report.plots import client_strip, learning_curves, partition_plot, save
from unalike.report.tables import Goal, comparison_markdown, comparison_table
from unalike.run.config import parse
from unalike.run.execute import start
from unalike.run.folder import read_json, read_lines, write

METHODS = {"FedAvg": "fedavg", "SCAFFOLD": "scaffold", "SuPerFed-MM": "superfed_mm"}
SETTINGS: dict[str, Any] = {
    "seed": 1,
    "rounds": 60,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3, "min_size": 10},
    "model": {"name": "mlp", "hidden": [64, 64]},
    "local": {"epochs": 2.0, "batch_size": 16, "lr": 0.1},
    "participation": {"fraction": 0.5},
    "evaluation": {"every": 2},
}


def main(folder: str) -> None:
    """Train, compare, draw."""
    place, console = Path(folder), Console()
    if place.exists() and any(place.iterdir()):
        raise RunError(f"'{place}' already exists; name another folder: unalike demo FOLDER.")
    table, curves, strips = [], [], {}
    for title, method in METHODS.items():
        config = parse(
            {**SETTINGS, "method": {"name": method}, "run": {"folder": str(place / method)}}
        )
        view = View(console)
        try:
            start(config, view)
        finally:
            view.end()
        summary = read_json(place / method / "summary.json")
        best = summary["selected"]
        total = summary["bytes_down"] + summary["bytes_up"]
        table.append(
            {
                "method": title,
                "round": best["round"],
                **numbers(best["local"], spread=True),
                "global": best["global"]["accuracy"]["mean"],
                "sent": size(total),
            }
        )
        records = read_lines(place / method / "rounds.jsonl")
        curves += [
            {
                "round": r["round"],
                "method": title,
                "accuracy": r["metrics"]["local"]["accuracy"]["mean"],
            }
            for r in records
            if r["metrics"]
        ]
        clients = read_lines(place / method / "clients.jsonl")
        chosen = next(c for c in clients if c["round"] == best["round"])
        strips[title] = chosen["local"]["accuracy"]
    better: dict[str, Goal] = {"accuracy": "max", "worst 10%": "max", "ECE": "min", "global": "max"}
    console.print(comparison_table(table, "Local test, round selected on validation", best=better))
    write(place / "table.md", comparison_markdown(table, best=better))
    data = read_json(place / "fedavg" / "skew.json")
    save(
        partition_plot(
            data["counts"], data["classes"], "Digits over clients", emd=data["skew"]["emd"]
        ),
        place / "partition.svg",
    )
    save(learning_curves(curves, title="Mean local test accuracy"), place / "curves.svg")
    save(client_strip(strips, title="Every client"), place / "clients.svg")
    console.print(f"table, plots and runs: {place}")
