"""A run computed by several processes together: the first owns the folder, the others follow it.

All see the same file system. If one process is lost, the others end; when restarted, all continue
from the last checkpoint, so that a restart by ``torchrun`` uses the same command as the first
start.
"""

import signal
from pathlib import Path

from unalike.engine.simulation.ranks import Ranks
from unalike.errors import ConfigError, RunError
from unalike.run import execute
from unalike.run.configuration.config import Config
from unalike.run.execute import Observer
from unalike.run.experiment.build import experiment
from unalike.run.folder import manifest
from unalike.run.folder.checkpoint import Checkpoint
from unalike.run.folder.records import LOGS, Log
from unalike.run.interrupts import SIGNALS


def lead(config: Config, observer: Observer, ranks: Ranks) -> Path:
    """The first process: starts the run in its folder, or continues what is there."""
    folder = _folder(config)
    there = (folder / "config.json").exists()
    found = manifest.read(folder) if there else None
    over = found is not None and found.finished
    ranks.exchange(b"over" if over else b"")
    if not there:
        return execute.start(config, observer, ranks)
    if execute.configured(folder).resolved() != config.resolved():
        raise RunError(
            f"'{folder}' holds a run with other settings; choose another run.folder, or restore "
            "the settings to continue it."
        )
    return execute.resume(folder, observer, ranks=None if over else ranks)


def follow(config: Config, ranks: Ranks) -> None:
    """Any other process: computes the same rounds, and writes nothing."""
    folder = _folder(config)
    if ranks.exchange(b"")[0] == b"over":
        return
    made = experiment(config, ranks)
    done = int(ranks.exchange(b"")[0])
    progress, course = None, made.course
    if done:
        origin = manifest.read(folder)
        assert origin is not None, "the first process has written it"
        logs = [Log(folder / name) for name in LOGS]
        seen, progress = Checkpoint(folder, made, logs, origin).seen()
        if seen != done:
            raise RunError(f"'{folder}' is not the folder that the first process continues.")
    for number in SIGNALS:  # the first process hears them, and tells when to stop
        signal.signal(number, signal.SIG_IGN)
    for t in range(done, course.rounds):
        progress = progress or course.begin()
        with made.simulation.lone():
            progress, _, _ = course.advance(progress, t)
        if ranks.exchange(b"")[0] == b"stop":
            return


def _folder(config: Config) -> Path:
    if not config.run.folder:
        raise ConfigError(
            "--distributed needs run.folder, so that restarted processes find their run; add "
            "--set run.folder=runs/NAME."
        )
    if config.engine.states == "disk":
        raise ConfigError(
            "--distributed keeps all clients' states in every process; set engine.states = "
            "'memory'."
        )
    return Path(config.run.folder)
