"""What is done to a process of the corpus before its command: it is to die at some moment."""

import itertools
import os
import signal
from pathlib import Path
from typing import Any


def die_after(last: int) -> None:
    """Killed as soon as a round is written down."""
    from unalike.run.folder import Log

    append = Log.append

    def dying(self: Log, record: dict[str, Any]) -> None:
        append(self, record)
        if self.path.name == "rounds.jsonl" and record["round"] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    Log.append = dying  # type: ignore[method-assign]


def die_at(at: int, counted: str) -> None:
    """Killed before its n-th operation on a file that it writes; the file has how many there were.

    Texts are written in halves, so that a kill also falls between them.
    """
    count = itertools.count()
    tally = os.open(counted, os.O_CREAT | os.O_WRONLY)

    def step() -> None:
        done = next(count)
        os.pwrite(tally, f"{done + 1:9}".encode(), 0)
        if done == at:
            os.kill(os.getpid(), signal.SIGKILL)

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
