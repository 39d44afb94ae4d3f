"""What a run came to, in a table that fits eighty columns."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from unalike.run.folder import read_json

SECTIONS = ("local", "global", "new")


class Column(NamedTuple):
    """A number of a section's metrics: which metric, which statistic over clients."""

    head: str
    metric: str
    statistic: str


COLUMNS = (
    Column("accuracy", "accuracy", "mean"),
    Column("std", "accuracy", "std"),
    Column("worst 10%", "accuracy", "worst10"),
    Column("Gini", "accuracy", "gini"),
    Column("loss", "loss", "mean"),
    Column("reconstruction", "reconstruction", "mean"),
    Column("KL", "kl", "mean"),
    Column("F1", "f1", "mean"),
    Column("AUROC", "auroc", "mean"),
    Column("ECE", "ece", "mean"),
)


def conclude(console: Console, folder: Path) -> None:
    """The table of last and selected round, what they cost, and where the files are."""
    summary = read_json(folder / "summary.json")
    console.print()
    for table in outcomes(summary):
        console.print(table)
    if summary["selected"] is None:
        console.print(f"no round was selected: {summary['selected_on']} is defined in none")
    else:
        console.print(f"selected on {summary['selected_on']}; test rows take no part in it")
    total = summary["bytes_down"] + summary["bytes_up"] + summary["bytes_across"]
    console.print(
        f"sent {size(total)} in all, {size(summary['bytes_peak'])} in the busiest round; "
        f"{summary['samples']:,.0f} examples processed"
    )
    if summary["rejected"] or summary["skipped"]:
        console.print(
            f"{summary['rejected']} updates refused, {summary['skipped']} rounds changed nothing"
        )
    if summary["noted"]:
        console.print(f"{summary['noted']} rounds with a note, see notes in rounds.jsonl")
    if "target" in summary:
        console.print(_reached(summary["target"]))
    if "regret" in summary:
        regret = summary["regret"]
        console.print(
            f"regret of the weights {regret['value']:.3f}, proven to stay below "
            f"{regret['bound']:.3f}"
        )
    if "privacy" in summary:
        console.print(_private(summary["privacy"]))
    console.print(f"files: {folder}", soft_wrap=True, markup=False)


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
    sections = [s for s in SECTIONS if s in judged]
    columns = [c for c in COLUMNS if any(c.metric in judged[s] for s in sections)]
    rows = [[s, *(number(_value(judged[s], c, s)) for c in columns)] for s in sections]
    return plain_table(["test", *(c.head for c in columns)], rows, title)


def _value(metrics: dict[str, Any], column: Column, section: str) -> float | None:
    spread = column.statistic != "mean"  # pooled rows have none
    if column.metric not in metrics or (spread and section == "global"):
        return None
    value: float | None = metrics[column.metric][column.statistic]
    return value


def _reached(target: dict[str, Any]) -> str:
    metric = "accuracy" if "accuracy" in target else "loss"
    goal = f"{target['section']} {metric} {target[metric]:g}"
    if target["round"] is None:
        return f"{goal} was not reached"
    return f"{goal} was reached in round {target['round']}, after {size(target['bytes'])}"


def _private(promise: dict[str, Any]) -> str:
    if promise["epsilon"] is None:
        return "updates were clipped without noise: no differential privacy"
    spent = f"epsilon = {promise['epsilon']:.3g} at delta = {promise['delta']:g} after all rounds"
    return spent if promise["epsilon"] <= 10 else f"{spent}: too large to promise anything"


def number(value: float | None) -> str:
    """Three decimals, or a dash for what is not defined."""
    return "—" if value is None else f"{value:.3f}"


def size(count: float) -> str:
    """A number of bytes for a person."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Table:
    """A narrow table of text whose first column is left and whose others are right."""
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", min_width=6)
    for row in rows:
        table.add_row(*row)
    return table
