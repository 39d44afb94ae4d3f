"""What finished cells came to, one record each, read from their folders."""

from pathlib import Path
from typing import Any

from unalike.compare.spec import Cell, Comparison
from unalike.errors import RunError
from unalike.run.folder import dumps, read_json, read_lines, write

FILE = "results.jsonl"
LEDGER = (
    "rounds",
    "samples",
    "bytes_down",
    "bytes_up",
    "bytes_across",
    "bytes_peak",
    "messages",
    "rejected",
    "skipped",
)


def finished(folder: Path, cell: Cell) -> bool:
    """Whether the cell has nothing left to do; its summary is the last thing a run writes."""
    return (folder / cell.folder / "summary.json").is_file()


def record(made: Comparison, folder: Path, cell: Cell) -> dict[str, Any]:
    """One line of results.jsonl: the number that is compared, all metrics beside it, the ledger."""
    judging, summary = made.judging, read_json(folder / cell.folder / "summary.json")
    chosen = summary[judging.round]
    if chosen is None:
        raise RunError(
            f"'{cell.folder}' has no selected round: no client has validation data; set "
            "compare.round = 'last' or raise split.validation."
        )
    ledger = {name: summary[name] for name in LEDGER}
    ledger["bytes"] = sum(ledger[name] for name in ("bytes_down", "bytes_up", "bytes_across"))
    metrics = {s: m for s, m in chosen.items() if s != "round"}
    return {
        "id": cell.id,
        "label": cell.label,
        "method": cell.method,
        "partition": cell.partition,
        "condition": cell.condition,
        "seed": cell.seed,
        "sweep": cell.sweep,
        "value": _value(metrics, made, cell),
        "round": chosen["round"],
        "ledger": ledger,
        "metrics": metrics,
    }


class Results:
    """The records of the finished cells, kept in memory and in results.jsonl."""

    def __init__(self, made: Comparison, folder: Path) -> None:
        """Reads what is finished already."""
        self.made, self.folder = made, folder
        self.known = {c.id: record(made, folder, c) for c in made.cells if finished(folder, c)}
        self._write()

    @property
    def records(self) -> list[dict[str, Any]]:
        """In the order of the cells, whatever order they finished in."""
        return [self.known[c.id] for c in self.made.cells if c.id in self.known]

    @property
    def left(self) -> list[Cell]:
        """The cells without a result."""
        return [c for c in self.made.cells if c.id not in self.known]

    def add(self, cell: Cell) -> dict[str, Any]:
        """A cell that has just finished."""
        self.known[cell.id] = found = record(self.made, self.folder, cell)
        self._write()
        return found

    def _write(self) -> None:
        write(self.folder / FILE, "".join(dumps(r) + "\n" for r in self.records))


def stored(folder: str | Path) -> list[dict[str, Any]]:
    """The records as they lie in the folder."""
    return read_lines(Path(folder) / FILE)


def score(metrics: dict[str, Any] | None, made: Comparison) -> float | None:
    """The compared number of one evaluation, if it has one."""
    j = made.judging
    found = (metrics or {}).get(j.section, {}).get(j.metric)
    return None if found is None else found[j.statistic]


def _value(metrics: dict[str, Any], made: Comparison, cell: Cell) -> float | None:
    j = made.judging
    if j.section not in metrics:
        raise RunError(
            f"'{cell.folder}' has no {j.section} test; choose another compare.section or raise "
            "split.test."
        )
    if j.metric not in metrics[j.section]:
        have = ", ".join(metrics[j.section])
        raise RunError(f"'{cell.folder}' has no metric '{j.metric}'; it has {have}.")
    return score(metrics, made)
