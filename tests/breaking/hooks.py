"""What is done to a process of the corpus before its command: it is to die at some moment."""

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any


def die_after(last: int) -> None:
    """Killed as soon as a round is written down."""
    from unalike.run.folder.records import Log

    append = Log.append

    def dying(self: Log, record: dict[str, Any]) -> None:
        append(self, record)
        if self.path.name == "rounds.jsonl" and record["round"] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    Log.append = dying  # type: ignore[method-assign]


def die_at(at: int, counted: str) -> None:
    """Killed before its n-th operation on a file that it writes; ``counted`` is told how many.

    What is written is written in halves, so that a kill also falls between them.
    """
    _step_by_step(at, counted, lambda: os.kill(os.getpid(), signal.SIGKILL))


def kill_worker_at(at: int, counted: str) -> None:
    """A process that it started is killed at that moment, or as soon as there is one."""

    def kill() -> None:
        for path in Path("/proc/self/task").glob("*/children"):
            for child in path.read_text().split():
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"resource_tracker" not in command:
                    os.kill(int(child), signal.SIGKILL)
                    return
        raise LookupError

    waiting = [True]

    def try_to() -> None:
        try:
            kill()
        except (LookupError, OSError):
            return
        waiting.clear()

    _step_by_step(at, counted, try_to, waiting)


def _step_by_step(
    at: int, counted: str, act: Callable[[], None], again: list[bool] | None = None
) -> None:
    """Act at the n-th operation, and at those after it while ``again`` is not empty."""
    count = itertools.count()
    tally = os.open(counted, os.O_CREAT | os.O_WRONLY)

    def step() -> None:
        done = next(count)
        os.pwrite(tally, f"{done + 1:9}".encode(), 0)
        if done == at or (again and done > at >= 0):
            act()

    for name in ("replace", "rename", "unlink", "fsync", "mkdir", "ftruncate"):
        real = getattr(os, name)

        def wrapped(*args: Any, real: Any = real, **kwargs: Any) -> Any:
            step()
            return real(*args, **kwargs)

        setattr(os, name, wrapped)
    opened = Path.open

    def open_(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode[0] not in "wa":
            return opened(self, mode, *args, **kwargs)
        step()
        return Halves(opened(self, mode, *args, **kwargs), step)

    Path.open = open_  # type: ignore[method-assign, assignment]


class Halves:
    """A file whose writes are two, with a moment to die in between."""

    def __init__(self, file: Any, step: Any) -> None:
        self._file, self._step = file, step

    def __enter__(self) -> "Halves":
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._file.__exit__(*error)

    def write(self, content: Any) -> int:
        half = len(content) // 2
        self._file.write(content[:half])
        self._file.flush()
        self._step()
        self._file.write(content[half:])
        return len(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
