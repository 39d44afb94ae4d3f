"""One process of a comparison: runs the cells it is given, one after the other."""

import os
import signal
import threading
import traceback
import warnings
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unalike.compare.budget import within
from unalike.compare.settings import Budget
from unalike.errors import UnalikeError, warned
from unalike.run.configuration.config import parse
from unalike.run.execute import Interrupted, Observer
from unalike.run.experiment.build import Experiment
from unalike.run.experiment.cadence import AUTO, spaced
from unalike.run.folder.records import write
from unalike.track.running import resume, start

STOP = "stop"


class Job(NamedTuple):
    """A cell to run, as plain data."""

    id: str
    folder: str
    config: dict[str, Any]
    budget: Budget
    baseline: dict[str, Any]  # the configuration whose use sets the budget
    errors: str  # where to write what went wrong
    every: int = 0  # rounds that pay for an evaluation under its condition; 0: as it is set
    engine: dict[str, Any] | None = None  # settings that were measured for its kind

    def run(self, observer: Observer) -> None:
        """Start the cell, or continue where it stopped."""
        folder = Path(self.folder)
        if (folder / "config.json").is_file():
            resume(folder, observer, trust=True)  # the decision was made for the whole comparison
            return
        config = within(parse(self.config), self.budget, parse(self.baseline))
        update: dict[str, Any] = {"run": config.run.model_copy(update={"folder": self.folder})}
        if config.engine.kind == AUTO:
            how = {**(self.engine or {}), "measure": False}  # as for all of its kind
            update["engine"] = config.engine.model_copy(update=how)
        start(spaced(config, self.every).model_copy(update=update), observer)


class Event(NamedTuple):
    """What a worker reports."""

    kind: Literal["begin", "round", "done", "stopped", "failed"]
    id: str
    round: int = 0
    rounds: int = 0
    metrics: dict[str, Any] | None = None
    text: str = ""


def serve(connection: Connection) -> None:
    """Run jobs until there are none; what the process of a worker does."""
    import torch

    os.setsid()  # Ctrl-C in a terminal is handled by the parent
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # while no round is running, see ``Reporter``
    threading.Thread(target=_die_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    warnings.formatwarning = warned
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        if not isinstance(job, Job):
            return
        connection.send(outcome(job, Reporter(job.id, connection)))


def outcome(job: Job, reporter: "Reporter") -> Event:
    """Run a job; whatever goes wrong becomes one sentence."""
    try:
        job.run(reporter)
    except Interrupted:
        return Event("stopped", job.id)
    except UnalikeError as error:
        return Event("failed", job.id, text=str(error))
    except BrokenPipeError:  # the parent is gone
        raise SystemExit(1) from None
    except Exception as error:
        path = Path(job.errors) / f"{job.id}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, traceback.format_exc())
        what = str(error).strip().splitlines() or [type(error).__name__]
        return Event("failed", job.id, text=f"{what[0]} (the whole error is in {path}).")
    return Event("done", job.id)


class Reporter:
    """Reports every round to the parent, and learns from it when to stop."""

    def __init__(self, id: str, connection: Connection) -> None:
        self.id, self.connection = id, connection
        self.stop = self.heard = False

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """A cell begins, or continues."""
        self.rounds = made.config.rounds
        self.connection.send(Event("begin", self.id, done, self.rounds))

    def round(self, record: dict[str, Any]) -> None:
        """Pass the round on; a request to stop becomes the signal that a run listens to."""
        event = Event("round", self.id, record["round"], self.rounds, record["metrics"])
        self.connection.send(event)
        if self.connection.poll():
            self.stop = self.connection.recv() == STOP
        if self.stop and not self.heard:  # rounds read from a log come before anyone listens
            signal.raise_signal(signal.SIGTERM)

    def stopping(self) -> None:
        """The run ends after this round."""
        self.heard = True


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # what was saved can be resumed
