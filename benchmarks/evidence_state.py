"""A run behind docs/results while it is under way: in memory, or in a folder where it goes on.

What a run folder holds while it is not finished (``run/folder/checkpoint.py``) is held here, too:

config.json    the settings; a folder that was begun with others is refused
rounds.jsonl   one line a round, as long as the checkpoint says
timing.jsonl   seconds of each round, by which the time of earlier sittings is known
checkpoint/    the two newest complete states (safetensors)

No models and no summary are written: all that is kept of a run is one line, which is made when it
ends. The last round is therefore never in a checkpoint: it also gives what is known of each client.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from unalike.engine.course import Progress
from unalike.errors import RunError
from unalike.files import new_folder, write
from unalike.run.experiment.build import Experiment
from unalike.run.folder.checkpoint import Checkpoint
from unalike.run.folder.manifest import Manifest
from unalike.run.folder.origins import code_digests, data_digest
from unalike.run.folder.records import Log, alone, dumps, plain, read_lines
from unalike.run.rounds import Step

LOGS = ("rounds.jsonl", "timing.jsonl")
REST = 10  # times as long as a checkpoint took, nothing is saved: it costs a tenth at most


class Sitting:
    """The rounds of a run in this process, and what is known of those before."""

    def __init__(self, made: Experiment, folder: Path | None, every: float) -> None:
        """Saved ``every`` so many seconds, if there is a folder."""
        self.made, self.every = made, every
        self.records: list[dict[str, Any]] = []
        self.done, self.before = 0, 0.0  # rounds, and seconds of those before this sitting
        self.progress: Progress | None = None
        self.logs = [] if folder is None else [Log(folder / name) for name in LOGS]
        self.checkpoint = None if folder is None else self._opened(folder)
        self.saved, self.due = self.done, time.monotonic() + every

    def _opened(self, folder: Path) -> Checkpoint:
        """Where the run was left, or the beginning."""
        place, settings = folder / "config.json", dumps(self.made.config.resolved(), indent=2)
        if rounds_in(folder) and (not place.is_file() or place.read_text() != settings):
            raise RunError(
                f"'{folder}' was begun with other settings; restore them, or delete it to begin "
                "again."
            )
        write(place, settings)
        data, code = data_digest(self.made.federation), code_digests(self.made.config)
        checkpoint = Checkpoint(folder, self.made, self.logs, Manifest(False, data, code, "", {}))
        self.done, self.progress = checkpoint.restore()
        self.records = read_lines(folder / LOGS[0])
        self.before = sum(line["seconds"] for line in read_lines(folder / LOGS[1]))
        return checkpoint

    def see(self, step: Step) -> None:
        """One more round; what is remembered is what a log would give back."""
        self.done, self.progress = step.round, step.progress
        self.records.append(plain(step.record))
        if self.checkpoint is not None:
            spent = {"round": step.round, "seconds": step.seconds, "evaluation": step.judging}
            for log, entry in zip(self.logs, (step.record, spent), strict=True):
                log.append(entry)
            if time.monotonic() >= self.due and step.round < self.made.course.rounds:
                self.store()

    def store(self) -> None:
        """Save the last round, unless it is saved or there is no place for it."""
        if self.checkpoint is None or self.progress is None or self.saved == self.done:
            return
        begun = time.monotonic()
        self.checkpoint.store(self.done, self.progress)
        now = time.monotonic()
        self.saved, self.due = self.done, now + max(self.every, REST * (now - begun))


@contextmanager
def sitting(made: Experiment, folder: Path | None, every: float) -> Iterator[Sitting]:
    """A run from where it was left, in a folder that nobody else uses meanwhile."""
    if folder is None:
        yield Sitting(made, None, every)
        return
    new_folder(folder)
    with alone(folder):
        yield Sitting(made, folder, every)


def rounds_in(folder: Path) -> int:
    """Rounds that the checkpoint in a folder holds; 0 without one that can be read."""
    for name in ("state", "next", "earlier"):  # what ``Checkpoint.restore`` tries, in its order
        path = folder / "checkpoint" / f"{name}.safetensors"
        try:
            with safe_open(path, "numpy") as held:
                return int(held.metadata()["round"])
        except (SafetensorError, OSError, TypeError, KeyError, ValueError):
            continue
    return 0
