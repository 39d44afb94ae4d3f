"""The one interface of all trackers, and the numbers they are given."""

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from unalike.errors import ConfigError
from unalike.metrics.catalogue import main_metric

SPREAD = ("std", "worst10", "gini")  # of the main metric, beside its mean
FILES = ("config.json", "summary.json")  # what a log of a finished run holds beside its numbers


class Begun(NamedTuple):
    """The run that is mirrored."""

    folder: Path
    config: dict[str, Any]
    project: str
    done: int  # rounds that were mirrored before this process
    known: str | None  # what ``begin`` returned then


class Tracker(Protocol):
    """Another program's log of a run."""

    def begin(self, run: Begun) -> str | None:
        """Open a log, or the one opened before; returns what it can be found by again."""
        ...

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """The numbers of one round."""
        ...

    def end(self, failed: bool) -> None:
        """Close the log; it may be opened again if the run is resumed."""
        ...


def require(module: str, tracker: str) -> Any:
    """The tracker's own package, or the command that installs it."""
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(
            f"track.to names '{tracker}', which is not installed; install it with "
            f"pip install 'unalike[{tracker}]', or leave it out."
        ) from None


def numbers(record: dict[str, Any], totals: dict[str, float]) -> dict[str, float]:
    """What a line of rounds.jsonl says, by names such as ``local/accuracy``; adds to the totals."""
    sent = sum(record[f"bytes_{way}"] for way in ("down", "up", "across"))
    totals["bytes"] = totals.get("bytes", 0) + sent
    totals["samples"] = totals.get("samples", 0) + record.get("samples", 0)
    out = {**totals, "refused": len(record["rejected"])}
    for section, metrics in (record["metrics"] or {}).items():
        for metric, spread in metrics.items():
            out[f"{section}/{metric}"] = spread["mean"]
            if metric == main_metric(metrics) and section != "global":
                out |= {f"{section}/{metric}_{name}": spread[name] for name in SPREAD}
    return {name: float(value) for name, value in out.items() if value is not None}
