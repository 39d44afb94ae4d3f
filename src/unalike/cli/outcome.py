"""The results of a run, in tables that fit eighty columns."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from unalike.errors import counted
from unalike.metrics.catalogue import main_metric
from unalike.report import outcome
from unalike.run.experiment.cadence import AUTO
from unalike.run.folder.records import read_json, read_lines
from unalike.tables.cells import words
from unalike.tables.format import count, decimal, size
from unalike.tables.model import Table
from unalike.tables.terminal import terminal

LONG = 5.0  # seconds of a run whose reader may want to save some


def conclude(console: Console, folder: Path) -> None:
    """The table of last and selected round, what they cost, and where the files are."""
    summary = read_json(folder / "summary.json")
    console.print()
    console.print(terminal(list(outcomes(summary)), console.width))
    if summary["selected"] is None:
        console.print(
            f"no round was selected: {summary['selected_on']} is undefined in all of them"
        )
    else:
        console.print(f"selected on {summary['selected_on']}; test rows take no part in it")
    total = summary["bytes_down"] + summary["bytes_up"] + summary["bytes_across"]
    console.print(
        f"sent {size(total)} in all, {size(summary['bytes_peak'])} in the busiest round; "
        f"{count(summary['samples'])} examples processed"
    )
    if "clock" in summary:
        console.print(f"{decimal(summary['clock'], 1)} s by the simulated clock")
    said = judged_often(read_lines(folder / "timing.jsonl"))
    if said and read_json(folder / "config.json")["evaluation"]["every"] != AUTO:
        console.print(said)
    if summary["rejected"] or summary["skipped"]:
        console.print(
            f"{counted(summary['rejected'], 'update')} refused, "
            f"{counted(summary['skipped'], 'round')} changed nothing"
        )
    if "exploded" in summary:
        console.print(
            f"training diverged in round {summary['exploded']}: its loss is more than a thousand "
            "times that of an untrained guess"
        )
    if summary["noted"]:
        noted = counted(summary["noted"], "round")
        console.print(f"{noted} with a note, see notes in rounds.jsonl")
    if "target" in summary:
        console.print(outcome.reached(summary["target"]))
    if "made" in summary:
        console.print(outcome.like_real(summary["made"]))
    for said in outcome.leaked(summary):
        console.print(said)
    if "regret" in summary:
        value, bound = (decimal(summary["regret"][k], 3) for k in ("value", "bound"))
        console.print(f"regret of the weights {value}, proven to stay below {bound}")
    if "privacy" in summary:
        console.print(_private(summary["privacy"]))
    console.print(f"files: {folder}", soft_wrap=True, markup=False)


def judged_often(timing: list[dict[str, Any]]) -> str:
    """That evaluation took more than a fifth of a run which took a while, and what would help."""
    whole = sum(line.get("seconds", 0.0) for line in timing)
    spent = [line["evaluation"] for line in timing if line.get("evaluation", 0.0) > 0.001]
    if whole < LONG or sum(spent) <= whole / 5:
        return ""
    training = max(whole - sum(spent), 0.001) / len(timing)
    every = math.ceil(4 * sum(spent) / len(spent) / training)
    return (
        f"evaluation took {sum(spent) / whole:.0%} of the time; "
        f"evaluation.every = {every} would make that about a fifth"
    )


def outcomes(summary: dict[str, Any]) -> Iterator[Table]:
    """The tests of the last round and of the selected one; a single table if they are the same."""
    last, selected = summary["last"], summary["selected"]
    if selected is None or selected["round"] == last["round"]:
        yield _tests(
            f"Round {last['round']}, the last" + (" and selected" if selected else ""), last
        )
        return
    yield _tests(f"Round {last['round']}, the last", last)
    yield _tests(f"Round {selected['round']}, selected", selected)


def _tests(title: str, judged: dict[str, Any]) -> Table:
    sections = outcome.distinct(judged)
    main = main_metric(judged[sections[0]])
    rows = [[words(s), *outcome.judged(judged[s], s, main)] for s in sections]
    notes = [note for s in sections for note in outcome.left_out(judged[s], s)]
    return Table(title, ["test", *outcome.columns(main).values()], rows, notes).filled()


def _private(promise: dict[str, Any]) -> str:
    if promise["epsilon"] is None:
        return "updates were clipped without noise: no differential privacy"
    spent = f"epsilon = {promise['epsilon']:.3g} at delta = {promise['delta']:g} after all rounds"
    return spent if promise["epsilon"] <= 10 else f"{spent}: too large to be a useful promise"
