"""Runs as users start them: in a folder, mirrored to the trackers that their settings name."""

from pathlib import Path

from unalike.run import execute
from unalike.run.config import Config
from unalike.run.execute import Observer, Silent
from unalike.track.mirror import Mirror


def start(config: Config, observer: Observer | None = None) -> Path:
    """A new run in a new folder, which is not made if the configuration or the data are wrong."""
    with Mirror(config.track, observer or Silent()) as watching:
        return execute.start(config, watching)


def resume(folder: str | Path, observer: Observer | None = None) -> Path:
    """Continue where a run stopped; a finished run comes to the same end again."""
    config = execute.configured(folder)
    with Mirror(config.track, observer or Silent()) as watching:
        return execute.resume(folder, watching)
