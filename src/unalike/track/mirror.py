"""An observer that passes a run on to trackers and to any other observer.

The records on disk are the truth; trackers get copies. A tracker that fails is left out from then
on, with a warning, and the run continues.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unalike.errors import RunWarning
from unalike.files import write
from unalike.run.configuration.sections import TrackSettings
from unalike.run.execute import Observer
from unalike.run.experiment.build import Experiment
from unalike.run.folder.records import dumps, read_json
from unalike.track.base import Begun, Tracker, numbers
from unalike.track.mlflow import MLflow
from unalike.track.tensorboard import TensorBoard
from unalike.track.wandb import WandB

TRACKERS: dict[str, Callable[[], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
}
FILE = "track.json"  # what the trackers' logs of a folder can be found by


class Mirror:
    """Trackers and another observer as one observer."""

    def __init__(self, settings: TrackSettings, observer: Observer) -> None:
        """Loads the trackers' packages, so that a missing one is named before anything begins."""
        self.settings, self.observer = settings, observer
        self.trackers = {name: TRACKERS[name]() for name in dict.fromkeys(settings.to)}
        self.open: dict[str, Tracker] = {}
        self.done = 0
        self.totals: dict[str, float] = {}

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """Open the logs."""
        self.end(failed=False)
        self.done, self.totals = done, {}
        if self.trackers:
            known = read_json(folder / FILE) if (folder / FILE).exists() else {}
            config = made.config.resolved()
            for name, tracker in self.trackers.items():
                run = Begun(folder, config, self.settings.project, done, known.get(name))
                with _Survives(self, name):
                    found = tracker.begin(run)
                    self.open[name] = tracker
                    known |= {name: found} if found is not None else {}
            if known:
                write(folder / FILE, dumps(known))
        self.observer.begin(made, skew, folder, done)

    def round(self, record: dict[str, Any]) -> None:
        """Log the round, unless it was logged before the run was resumed."""
        values = numbers(record, self.totals)
        if record["round"] > self.done:
            for name, tracker in list(self.open.items()):
                with _Survives(self, name):
                    tracker.log(record["round"], values)
        self.observer.round(record)

    def stopping(self) -> None:
        """Pass it on."""
        self.observer.stopping()

    def end(self, failed: bool) -> None:
        """Close all logs."""
        for name, tracker in list(self.open.items()):
            with _Survives(self, name):
                tracker.end(failed)
        self.open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(failed=kind is not None)


class _Survives:
    """A tracker's failure becomes a warning, and its end."""

    def __init__(self, mirror: Mirror, name: str) -> None:
        self.mirror, self.name = mirror, name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.mirror.open.pop(self.name, None)
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        warnings.warn(
            f"tracker '{self.name}' failed and is left out from now on; the run continues: "
            f"{reason}",
            RunWarning,
            stacklevel=3,
        )
        return True
