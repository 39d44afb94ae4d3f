"""``unalike tune``: a search of settings, its trials and the best of them."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from unalike.cli.outcome import number, plain_table
from unalike.run.config import read
from unalike.run.selecting import selection_metric
from unalike.run.toml import as_toml
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
    metric = selection_metric(made.config)
    winner = best(records)
    done = sorted((r for r in records if r["score"] is not None), key=lambda r: r["trial"])
    pruned, failed = (sum(r["state"] == s for r in records) for s in ("pruned", "failed"))
    heads = ["trial", *made.space, metric]
    rows = [
        [str(r["trial"]), *(short(r["settings"][k]) for k in made.space), number(r["score"])]
        for r in _shown(done, winner)
    ]
    console.print(plain_table(heads, rows, f"Trials by validation {metric}, mean over clients"))
    console.print(
        f"{len(records)} trials: {len(done)} finished, {pruned} pruned, {failed} could not be "
        "trained; test rows took no part in the choice"
    )
    console.print(f"best: trial {winner['trial']}, validation {metric} {winner['score']:.4f}")
    console.print(as_toml(made.changed(winner["settings"])))
    console.print(f"run it: unalike run {folder / 'best.toml'}", soft_wrap=True)
    console.print(f"files: {folder}", soft_wrap=True)


def _shown(done: list[dict[str, Any]], winner: dict[str, Any]) -> list[dict[str, Any]]:
    """The best trials, the winner first."""
    falling = done[0]["score"] <= winner["score"]
    ranked = sorted(done, key=lambda r: -r["score"] if falling else r["score"])
    return [winner, *(r for r in ranked if r is not winner)][:SHOWN]
