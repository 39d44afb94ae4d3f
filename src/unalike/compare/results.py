"""The results of finished cells, one record each, read from their folders; why others failed."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from unalike.compare.spec import Cell, Comparison
from unalike.errors import RunError
from unalike.run.folder.records import Log, dumps, read_json, read_lines, write

FILE = "results.jsonl"
FAILED = "failed.json"
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


def begun(folder: Path, cell: Cell) -> bool:
    """Whether the cell has a folder to continue in; its configuration is the first thing in it."""
    return (folder / cell.folder / "config.json").is_file()


def record(made: Comparison, folder: Path, cell: Cell) -> dict[str, Any]:
    """One line of results.jsonl: the number that is compared, all metrics beside it, the ledger."""
    path = folder / cell.folder / "summary.json"
    summary = read_json(path)
    try:
        return _record(made, folder, cell, summary)
    except (AttributeError, KeyError, TypeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else f"is damaged ({error})"
        raise RunError(f"'{path}' {what}: delete it, and it will be made again.") from None


def collect(made: Comparison, folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """(records, why there is none) of the finished cells, by cell."""
    known: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for cell in made.cells:
        if finished(folder, cell):
            try:
                known[cell.id] = record(made, folder, cell)
            except RunError as error:
                failed[cell.id] = str(error)
    return known, failed


def reasons(folder: Path) -> dict[str, str]:
    """Why cells failed, as recorded in the folder."""
    found = read_json(folder / FAILED) if (folder / FAILED).is_file() else {}
    return found if isinstance(found, dict) else {}


def _record(made: Comparison, folder: Path, cell: Cell, summary: dict[str, Any]) -> dict[str, Any]:
    judging = made.judging
    chosen = summary[judging.round]
    if chosen is None:
        raise RunError(
            f"'{cell.folder}' has no selected round: no client has validation data; "
            f"{_otherwise(folder)} compare.round=last."
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
        "value": _value(metrics, made, folder, cell),
        "round": chosen["round"],
        "ledger": ledger,
        "metrics": metrics,
        "curve": _curve(made, folder / cell.folder / "rounds.jsonl"),
        "rows": _rows(folder / cell.folder / "skew.json"),
        **{name: summary[name] for name in ("train_loss",) if name in summary},
    }


def _curve(made: Comparison, path: Path) -> dict[str, list[Any]]:
    """The compared number after each evaluated round, with what was sent until then.

    And with the seconds until then, where a simulated clock tells them.
    """
    if not path.is_file():
        return {}
    stat, j = path.stat(), made.judging
    return _read_curve(path, stat.st_size, stat.st_mtime_ns, j.section, j.metric, j.statistic)


@lru_cache(maxsize=10_000)  # a live report asks repeatedly
def _read_curve(
    path: Path, size: int, changed: int, section: str, metric: str, statistic: str
) -> dict[str, list[Any]]:
    rounds: list[int] = []
    values: list[float | None] = []
    sent: list[int] = []
    seconds: list[float] = []
    total, now, timed = 0, 0.0, False
    for r in read_lines(path):
        total += r["bytes_down"] + r["bytes_up"] + r["bytes_across"]
        now, timed = now + r.get("clock", 0.0), timed or "clock" in r
        found = (r["metrics"] or {}).get(section, {}).get(metric)
        if found is not None:
            rounds.append(r["round"])
            values.append(found[statistic])
            sent.append(total)
            seconds.append(round(now, 6))
    clock = {"seconds": seconds} if timed else {}
    return {"round": rounds, "value": values, "bytes": sent, **clock}


def _rows(path: Path) -> dict[str, int]:
    """How many rows there were for what; runs of earlier versions do not say."""
    found = read_json(path) if path.is_file() else {}
    return {**found["rows"], "unused": found.get("unused", 0)} if "rows" in found else {}


class Results:
    """The records of the finished cells, kept in memory and in results.jsonl.

    While cells run a line is added for each, so that what is written does not grow with the
    square of their number; ``save`` puts the lines in order.
    """

    def __init__(self, made: Comparison, folder: Path) -> None:
        """Reads what is finished already."""
        self.made, self.folder, self.log = made, folder, Log(folder / FILE)
        self.known, self.failed = collect(made, folder)
        before = reasons(folder)
        self.failed |= {c.id: before[c.id] for c in self.left if c.id in before}
        self.save()

    @property
    def records(self) -> list[dict[str, Any]]:
        """In the order of the cells, whatever order they finished in."""
        return [self.known[c.id] for c in self.made.cells if c.id in self.known]

    @property
    def left(self) -> list[Cell]:
        """The cells that have still to be run."""
        return [
            c
            for c in self.made.cells
            if c.id not in self.known and not (c.id in self.failed and finished(self.folder, c))
        ]

    def add(self, cell: Cell) -> dict[str, Any]:
        """A cell that has just finished."""
        self.known[cell.id] = found = record(self.made, self.folder, cell)
        self.log.append(found)
        self.log.sync()
        self.begin(cell)
        return found

    def begin(self, cell: Cell) -> None:
        """A cell that runs again is no longer one that failed."""
        if self.failed.pop(cell.id, None) is not None:
            self._explain()

    def fail(self, cell: Cell, why: str) -> None:
        """A cell that has just failed."""
        self.failed[cell.id] = why
        self._explain()

    def save(self) -> None:
        """Write all records, in their order."""
        write(self.folder / FILE, "".join(dumps(r) + "\n" for r in self.records))
        self._explain()

    def _explain(self) -> None:
        if self.failed:
            write(self.folder / FAILED, dumps(self.failed, indent=1))
        else:
            (self.folder / FAILED).unlink(missing_ok=True)


def score(metrics: dict[str, Any] | None, made: Comparison) -> float | None:
    """The compared number of one evaluation, if it has one."""
    j = made.judging
    found = (metrics or {}).get(j.section, {}).get(j.metric)
    return None if found is None else found[j.statistic]


def _value(metrics: dict[str, Any], made: Comparison, folder: Path, cell: Cell) -> float | None:
    j = made.judging
    if j.section not in metrics:
        have = ", ".join(s for s in metrics if s != "validation")
        raise RunError(
            f"'{cell.folder}' has no {j.section} test; it has {have}: {_otherwise(folder)} "
            "compare.section=SECTION."
        )
    if j.metric not in metrics[j.section]:
        have = ", ".join(metrics[j.section])
        raise RunError(
            f"'{cell.folder}' has no metric '{j.metric}'; it has {have}: {_otherwise(folder)} "
            "compare.metric=METRIC."
        )
    return score(metrics, made)


def _otherwise(folder: Path) -> str:
    """How to compare finished cells by another setting, which follows."""
    return f"compare the same file with --folder {folder} --set"
