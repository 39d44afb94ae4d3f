"""``unalike run`` and ``unalike resume``: a live view of a run and what it came to."""

import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from unalike.report.tables import comparison_table, skew_table
from unalike.run.build import Experiment
from unalike.run.config import load
from unalike.run.execute import Interrupted, resume, start
from unalike.run.folder import read_json

SHOWN = (("local", "accuracy"), ("global", "accuracy"), ("new", "accuracy"))


class View:
    """Progress for a person: a bar on a terminal, a line now and then in a log."""

    def __init__(self, console: Console) -> None:
        self.console, self.told = console, 0.0
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """Show the data's skew and start the bar."""
        sim, config = made.simulation, made.config
        self.folder, self.rounds = folder, config.rounds
        self.console.print(skew_table(skew))
        names = " + ".join([config.method.name, *(m.name for m in config.plus)])
        self.console.print(
            f"{names} on {config.data.name}, {made.federation.n_clients} clients, "
            f"{config.rounds} rounds, {sim.engine} engine; folder {folder}"
        )
        for question in sim.recipe.mixing.survey:
            self.console.print(f"clients reveal once: {question.reveals}")
        if done:
            self.console.print(f"resuming after round {done}")
        self.progress.start()
        self.bar = self.progress.add_task(names, total=config.rounds, score="")

    def round(self, record: dict[str, Any]) -> None:
        """Advance the bar; name clients whose updates were refused."""
        for client, why in record["rejected"].items():
            self.console.print(f"round {record['round']}: refused client {client}: {why}")
        if record["skipped"]:
            self.console.print(f"round {record['round']} changed nothing: {record['skipped']}")
        score = scores(record)
        self.progress.update(self.bar, completed=record["round"], score=score)
        now = time.monotonic()
        if not self.console.is_terminal and score and now - self.told > 2:
            self.told = now
            print(f"round {record['round']}/{self.rounds}  {score}", flush=True)

    def end(self) -> None:
        """Leave the terminal as it was."""
        self.progress.stop()


def scores(record: dict[str, Any]) -> str:
    """The round's accuracies in a few words."""
    metrics = record["metrics"] or {}
    return "  ".join(
        f"{section} {metrics[section][metric]['mean']:.3f}"
        for section, metric in SHOWN
        if section in metrics
    )


def train(file: str, overrides: list[str]) -> None:
    """Run a file."""
    config = load(file, overrides)
    _watched(lambda view: start(config, view))


def go_on(folder: str) -> None:
    """Resume a folder."""
    _watched(lambda view: resume(folder, view))


def _watched(act: Any) -> None:
    console = Console()
    view = View(console)
    try:
        folder = act(view)
    except Interrupted as stop:
        view.end()
        print(f"{stop}; go on with: unalike resume {stop.folder}", file=sys.stderr)
        sys.exit(130)
    finally:
        view.end()
    conclude(console, folder)


def conclude(console: Console, folder: Path) -> None:
    """The table of last and selected round, and where the files are."""
    summary = read_json(folder / "summary.json")
    console.print(comparison_table(rows(summary)))
    total = summary["bytes_down"] + summary["bytes_up"] + summary["bytes_across"]
    console.print(
        f"selected on {summary['selected_on']}; sent {size(total)} "
        f"(peak {size(summary['bytes_peak'])} a round), {summary['samples']:,.0f} samples processed"
    )
    if "target" in summary:
        target = summary["target"]
        reached = (
            f"reached in round {target['round']} after {size(target['bytes'])}"
            if target["round"]
            else "not reached"
        )
        console.print(f"{target['section']} accuracy {target['accuracy']}: {reached}")
    console.print(f"files: {folder}")


def rows(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each test of the last and the selected round."""
    out = []
    for name in ("last", "selected"):
        chosen = summary[name]
        if chosen is None:
            continue
        for section in ("local", "global", "new"):
            if section in chosen:
                out.append({"round": f"{name} ({chosen['round']})", "test": section})
                out[-1] |= numbers(chosen[section], spread=section == "local")
    return out


def numbers(metrics: dict[str, Any], spread: bool) -> dict[str, Any]:
    """The columns of a table from one section's metrics."""
    accuracy = metrics["accuracy"]
    return {
        "accuracy": accuracy["mean"],
        "std": accuracy["std"] if spread else None,
        "worst 10%": accuracy["worst10"] if spread else None,
        "Gini": accuracy["gini"] if spread else None,
        "loss": metrics["loss"]["mean"],
        "F1": metrics["f1"]["mean"],
        "AUROC": metrics["auroc"]["mean"] if "auroc" in metrics else None,
        "ECE": metrics["ece"]["mean"],
    }


def size(count: float) -> str:
    """A number of bytes for a person."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
