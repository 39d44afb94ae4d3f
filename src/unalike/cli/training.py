"""``unalike run``, ``unalike resume`` and ``unalike verify``."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from unalike.cli.outcome import conclude
from unalike.cli.view import View
from unalike.engine.simulation.ranks import Torchrun
from unalike.run.configuration.config import read_config
from unalike.run.distributed import follow
from unalike.run.folder.verify import verify
from unalike.track.running import resume, start


def train(file: str, overrides: list[str], distributed: bool = False) -> None:
    """Run a file; distributed, this is one of several processes that do."""
    config = read_config(file, overrides)
    if not distributed:
        _watched(lambda view: start(config, view))
        return
    ranks = Torchrun()
    if ranks.rank:
        follow(config, ranks)
    else:
        _watched(lambda view: start(config, view, ranks))
    ranks.close()


def go_on(folder: str, trust: bool = False, changed_code: bool = False) -> None:
    """Resume a folder."""
    _watched(lambda view: resume(folder, view, trust=trust, changed_code=changed_code))


def check(folder: str) -> None:
    """Verify a folder, or the log of a deployed run's."""
    log = Path(folder) / "audit.jsonl"
    if log.is_file():
        from unalike.deploy.audit import proven

        text = proven(log)
    else:
        text = verify(Path(folder))
    Console(highlight=False).print(text, markup=False, soft_wrap=True)


def _watched(act: Callable[[View], Path]) -> None:
    console = Console(highlight=False)
    view = View(console)
    try:
        folder = act(view)
    finally:
        view.end()
    if not view.begun:
        console.print("all rounds were already done; the files are as the run wrote them")
    conclude(console, folder)
