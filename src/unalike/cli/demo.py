"""``unalike demo``: three methods on unalike digits, ending in a table and three plots."""

from pathlib import Path
from typing import Any

from rich.console import Console

from unalike.cli.outcome import number, plain_table, size
from unalike.cli.view import View
from unalike.errors import RunError
from unalike.report.plots import client_strip, learning_curves, partition_plot, save
from unalike.report.tables import Goal, comparison_markdown
from unalike.run.config import parse
from unalike.run.execute import start
from unalike.run.folder import read_json, read_lines, write

METHODS = {"FedAvg": "fedavg", "SCAFFOLD": "scaffold", "SuPerFed-MM": "superfed_mm"}
# Few classes a client and five local epochs: enough drift for the methods to differ. The seed is
# the first; over the seeds 0 to 4 the methods came in the same order, in the mean.
SETTINGS: dict[str, Any] = {
    "seed": 0,
    "rounds": 40,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.1, "min_size": 20},
    "model": {"name": "mlp", "hidden": [64, 64]},
    "local": {"epochs": 5.0, "batch_size": 16, "lr": 0.1},
    "participation": {"fraction": 0.5},
    "evaluation": {"every": 2},
}
HEADS = ("method", "local", "std", "worst 10%", "ECE", "global", "round", "sent")
BEST: dict[str, Goal] = {"local": "max", "worst 10%": "max", "ECE": "min", "global": "max"}
LESSON = (
    "local: the mean accuracy of the clients on their own test rows; global: of the shared "
    "model on all of them; rounds are selected on validation rows. One seed shows what to "
    "look at, not who wins."
)


def main(folder: str) -> None:
    """Train, compare, draw."""
    place, console = Path(folder), Console(highlight=False)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise RunError(f"'{place}' already exists; name another folder: unalike demo FOLDER.")
    for method in METHODS.values():
        own = {"method": {"name": method}, "run": {"folder": str(place / method)}}
        view = View(console, introduce=method == "fedavg")
        try:
            start(parse({**SETTINGS, **own}), view)
        finally:
            view.end()
    table = [_row(title, place / method) for title, method in METHODS.items()]
    console.print()
    console.print(
        plain_table(HEADS, [_shown(row) for row in table], "Three methods, one federation")
    )
    console.print(LESSON)
    write(place / "table.md", comparison_markdown(table, best=BEST))
    _draw(place)
    for name, about in (
        ("partition.svg", "who holds which digit"),
        ("curves.svg", "accuracy over rounds"),
        ("clients.svg", "every client under every method"),
        ("table.md", "the table above"),
    ):
        console.print(f"{place / name}  {about}", soft_wrap=True)
    console.print(f"and next? unalike report {place / 'scaffold'}, unalike list", soft_wrap=True)


def _row(title: str, run: Path) -> dict[str, Any]:
    summary = read_json(run / "summary.json")
    best, accuracy = summary["selected"], summary["selected"]["local"]["accuracy"]
    return {
        "method": title,
        "local": accuracy["mean"],
        "std": accuracy["std"],
        "worst 10%": accuracy["worst10"],
        "ECE": best["local"]["ece"]["mean"],
        "global": best["global"]["accuracy"]["mean"],
        "round": best["round"],
        "sent": size(summary["bytes_down"] + summary["bytes_up"]),
    }


def _shown(row: dict[str, Any]) -> list[str]:
    return [number(v) if isinstance(v, float) else str(v) for v in row.values()]


def _draw(place: Path) -> None:
    """The partition, the curves and the clients at the selected round."""
    curves, strips, sizes = [], {}, {}
    for title, method in METHODS.items():
        run = place / method
        curves += [
            {"method": title, "round": r["round"], "accuracy": judged["local"]["accuracy"]["mean"]}
            for r in read_lines(run / "rounds.jsonl")
            if (judged := r["metrics"])
        ]
        best = read_json(run / "summary.json")["selected"]["round"]
        clients = next(c for c in read_lines(run / "clients.jsonl") if c["round"] == best)
        strips[title], sizes[title] = clients["local"]["accuracy"], clients["local"]["n"]
    data = read_json(place / "fedavg" / "skew.json")
    emd = data["skew"]["emd"]
    partition = partition_plot(data["counts"], data["classes"], "Who holds which digit", emd=emd)
    save(partition, place / "partition.svg")
    title = "Mean accuracy of the clients on their own test rows"
    save(learning_curves(curves, title=title, percent=True), place / "curves.svg")
    title = "Every client on its own test rows, at the selected round"
    save(client_strip(strips, title=title, sizes=sizes, percent=True), place / "clients.svg")
