"""``unalike tune``: a search of settings, its trials and the best of them."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from unalike.metrics.catalogue import head, metric
from unalike.run.configuration.config import read
from unalike.run.configuration.toml import as_toml
from unalike.run.measures.selecting import selection_metric
from unalike.tables.cells import score, whole, words
from unalike.tables.format import with_unit
from unalike.tables.model import Cell, Table
from unalike.tables.terminal import terminal
from unalike.tune.space import Tuning, tuning
from unalike.tune.study import best, optuna, search, short

SHOWN = 15  # trials in the terminal; all of them are in trials.jsonl


def tune(file: str, overrides: list[str], folder: str | None) -> None:
    """Search as a file says; print the trials and the best settings."""
    made = tuning(read(Path(file)), overrides)
    optuna()  # refuse early: the data may take a while
    place = Path(folder or f"runs/tune-{Path(file).stem}")
    console = Console(highlight=False, markup=False)
    with console.status("loading the data") as status:

        def tell(text: str, ends: bool) -> None:
            status.update(Text(text))
            if ends and not console.is_terminal:
                console.print(text, soft_wrap=True)

        records = search(made, place, tell)
    _conclude(console, made, records, place)


def _conclude(console: Console, made: Tuning, records: list[dict[str, Any]], folder: Path) -> None:
    name = selection_metric(made.config)
    title = metric(name).title
    winner = best(records)
    done = sorted((r for r in records if r["score"] is not None), key=lambda r: r["trial"])
    pruned, failed = (sum(r["state"] == s for r in records) for s in ("pruned", "failed"))
    rows = [
        [
            whole(r["trial"]),
            *(_setting(r["settings"][key]) for key in made.space),
            score(r["score"], name),
        ]
        for r in _shown(done, winner)
    ]
    heads = ["trial", *made.space, head(name)]
    trials = Table(f"Trials by validation {title}, mean over clients", heads, rows)
    console.print(terminal([trials], console.width))
    console.print(
        f"{len(records)} trials: {len(done)} finished, {pruned} pruned, {failed} could not be "
        "trained; test rows took no part in the choice"
    )
    best_score = with_unit(winner["score"], name)
    console.print(f"best: trial {winner['trial']}, validation {title} {best_score}")
    console.print(as_toml(made.changed(winner["settings"])))
    console.print(f"run it: unalike run {folder / 'best.toml'}", soft_wrap=True)
    console.print(f"files: {folder}", soft_wrap=True)


def _setting(value: Any) -> Cell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(value, short(value)) if number else words(short(value))


def _shown(done: list[dict[str, Any]], winner: dict[str, Any]) -> list[dict[str, Any]]:
    """The best trials, the winner first."""
    falling = done[0]["score"] <= winner["score"]
    ranked = sorted(done, key=lambda r: -r["score"] if falling else r["score"])
    return [winner, *(r for r in ranked if r is not winner)][:SHOWN]
