"""``unalike run`` and ``unalike resume``."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from unalike.cli.outcome import conclude
from unalike.cli.view import View
from unalike.run.config import read_config
from unalike.track.running import resume, start


def train(file: str, overrides: list[str]) -> None:
    """Run a file."""
    config = read_config(file, overrides)
    _watched(lambda view: start(config, view))


def go_on(folder: str) -> None:
    """Resume a folder."""
    _watched(lambda view: resume(folder, view))


def _watched(act: Callable[[View], Path]) -> None:
    console = Console(highlight=False)
    view = View(console)
    try:
        folder = act(view)
    finally:
        view.end()
    conclude(console, folder)
