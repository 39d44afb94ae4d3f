"""Runs as users start them: in a folder, mirrored to the trackers that their settings name."""

from pathlib import Path

from unalike.engine.simulation.ranks import Ranks
from unalike.run import execute
from unalike.run.configuration.config import Config
from unalike.run.distributed import lead
from unalike.run.execute import Observer, Silent
from unalike.track.mirror import Mirror


def start(config: Config, observer: Observer | None = None, ranks: Ranks | None = None) -> Path:
    """A new run in a new folder, which is not made if the configuration or the data are wrong.

    With ``ranks`` other processes follow this one, and a run that is already there is continued.
    """
    with Mirror(config.track, observer or Silent()) as watching:
        if ranks is not None:
            return lead(config, watching, ranks)
        return execute.start(config, watching)


def resume(
    folder: str | Path,
    observer: Observer | None = None,
    *,
    trust: bool = False,
    changed_code: bool = False,
) -> Path:
    """Continue where a run stopped; for a finished run nothing is computed or replaced.

    Args:
        folder: The run's folder.
        observer: Who watches.
        trust: Run the Python files that the folder names, even if somebody else started the run.
        changed_code: Continue although these files, or unalike itself, have changed.
    """
    config = execute.configured(folder)
    with Mirror(config.track, observer or Silent()) as watching:
        return execute.resume(folder, watching, trust=trust, changed_code=changed_code)
