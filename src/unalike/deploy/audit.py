"""An audit log: one line for each message, each with the digest of the line before it.

Whoever changes, drops or adds a line in the middle breaks the chain from there on, and
``check`` names the line.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from unalike.errors import RunError

FIRST = "0" * 64


class Traced(Protocol):
    """Bytes, as far as the log records them."""

    @property
    def size(self) -> int:
        """How many."""
        ...

    @property
    def sha256(self) -> str:
        """Of all before the tensors' bytes, whose own digest is in there."""
        ...


class Audit:
    """A file that is only ever appended to."""

    def __init__(self, path: Path) -> None:
        """Continues the chain of a file that is there."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        _finish(path)
        self._last = check(path) if path.exists() else FIRST
        self._alone = threading.Lock()

    def append(self, way: str, site: str, kind: str, number: int, what: Traced) -> None:
        """A message that was sent or received: what it was, and the digest of its bytes."""
        with self._alone:
            entry = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "way": way,
                "site": site,
                "kind": kind,
                "number": number,
                "bytes": what.size,
                "sha256": what.sha256,
                "before": self._last,
            }
            line = json.dumps(entry, sort_keys=True)
            try:
                with self.path.open("a", encoding="utf-8") as f:
                    f.write(line + "\n")
                    f.flush()
                    os.fsync(f.fileno())
            except OSError:
                _finish(self.path)
                raise
            self._last = hashlib.sha256(line.encode()).hexdigest()


def _finish(path: Path) -> None:
    """Cut off half a last line, left by a process that was killed or had a full disk."""
    if path.exists():
        held = path.read_bytes()
        if held and not held.endswith(b"\n"):
            os.truncate(path, held.rfind(b"\n") + 1)


class Entry(NamedTuple):
    """One line, as far as a report needs it."""

    time: str
    way: str
    site: str
    bytes: int


def entries(path: Path) -> Iterator[Entry]:
    """The content of a log, even if its chain is broken; an incomplete last line is left out."""
    with path.open(encoding="utf-8", errors="replace") as f:
        for line in f:
            with suppress(ValueError, KeyError, TypeError):
                told = json.loads(line)
                at, way, site = (str(told[k]) for k in ("time", "way", "site"))
                yield Entry(at, way, site, int(told["bytes"]))


def check(path: Path) -> str:
    """The digest of the last line; RunError names the first line that does not follow."""
    last = FIRST
    with path.open(encoding="utf-8", errors="replace") as f:
        for number, line in enumerate(f, 1):
            try:
                before = json.loads(line)["before"]
            except (ValueError, KeyError, TypeError):
                before = None
            if before != last or not line.endswith("\n"):
                raise RunError(
                    f"'{path}' was changed or cut off: line {number} does not match "
                    "the line before it."
                )
            last = hashlib.sha256(line[:-1].encode()).hexdigest()
    return last


def proven(path: Path) -> str:
    """What to say of a log whose every line matches the one before."""
    last = check(path)
    lines = path.read_bytes().count(b"\n")
    return (
        f"'{path}' is intact: {lines} messages, each line with the digest of the one before; "
        f"note the last one, {last[:16]}, to check later that none was cut off"
    )
