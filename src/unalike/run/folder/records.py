"""A run is a folder: configuration, environment, one JSON line a round, checkpoints, a summary.

config.json       every setting with its default
environment.json  versions and machine
manifest.json     digests of all that must not change; written at the start and at the very end
code/             the user's own Python files, as they were
skew.json         the partition's class counts and its skew
rounds.jsonl      one line a round; the same bytes whether or not the run was interrupted
clients.jsonl     per-client metrics, one line an evaluation
timing.jsonl      seconds of each round, kept apart because they never repeat
checkpoint/       the two newest complete states (safetensors)
summary.json      last and selected round, totals
model.safetensors the final shared model, if there is one
NAME.npz, .png    what a method has made beside it, as arrays and as a picture
"""

import errno
import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unalike.errors import Damaged, RunError
from unalike.files import write as write

LOGS = ("rounds.jsonl", "clients.jsonl")
# Errors of a disk, which may name no file.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def plain(value: Any) -> Any:
    """Data as JSON can hold it: no NaN, no infinities, no NumPy."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if kinds <= {int, str} or (kinds == {float} and all(map(math.isfinite, value))):
            return list(value)
        return [plain(v) for v in value]
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON text, the same for the same data."""
    return json.dumps(plain(value), indent=indent, allow_nan=False)


class Log:
    """A file of JSON lines that knows its own length and hash."""

    def __init__(self, path: Path) -> None:
        """Starts empty; ``rewind`` picks up an earlier one."""
        self.path, self.size, self.hash = path, 0, hashlib.sha256()

    def check(self, size: int, digest: str) -> None:
        """Say so if the file is not what a checkpoint was made with; more lines may follow."""
        raw = self.path.read_bytes()[:size] if self.path.is_file() else b""
        if len(raw) != size or hashlib.sha256(raw).hexdigest() != digest:
            raise Damaged(
                f"'{self.path}' is not what the checkpoint was made with; restore it or start "
                "the run again in another folder."
            )

    def rewind(self, size: int) -> None:
        """Cut the file back to a checkpoint and continue from there."""
        self.size, self.hash = size, hashlib.sha256(self.path.read_bytes()[:size])
        with self.path.open("ab") as f:
            f.truncate(size)

    def append(self, record: Any) -> None:
        """One more line."""
        raw = (dumps(record) + "\n").encode()
        with self.path.open("ab") as f:
            f.write(raw)
        self.size += len(raw)
        self.hash.update(raw)

    def sync(self) -> None:
        """Onto the disk, since a checkpoint that outlives its log could not be used."""
        with self.path.open("ab") as f:
            os.fsync(f.fileno())


def read_json(path: Path) -> Any:
    """A JSON file of a run folder, or one sentence about what is wrong with it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"'{path.parent}' is not a run folder: it has no {path.name}.") from None
    except OSError as error:
        raise RunError(f"'{path}' cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, endless digits or nesting
        why = str(error).partition("\n")[0]
        raise RunError(f"'{path}' is damaged ({why:.120}); restore it from a copy.") from None


def read_lines(path: Path) -> list[Any]:
    """The records of a JSON-lines file; a half-written last line is left out."""
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
    except OSError as error:
        raise RunError(f"'{path}' cannot be read: {error.strerror}.") from None
    records = []
    for i, line in enumerate(lines):
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):
            if i < len(lines) - 1:
                raise RunError(f"line {i + 1} of '{path}' is damaged.") from None
    return records


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, or say that another process does; say so if it cannot be written."""
    try:
        with (folder / ".lock").open("w") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"'{folder}' is in use by another process; wait for it or choose another "
                    "folder."
                ) from None
            yield
    except OSError as error:
        if not _about(folder, error):  # of what was done meanwhile, such as starting a process
            raise
        raise RunError(
            f"'{error.filename or folder}' cannot be written: {error.strerror or error}."
        ) from error


def by_what(folder: Path) -> str:
    """How the run in a folder is continued."""
    path = folder / "deploy.json"
    if not path.is_file():
        return f"continue with: unalike resume {folder}"
    who = "serve" if "sites" in read_json(path) else "join' or 'unalike peer"
    return f"real sites take part in it: the same 'unalike {who}' command continues it"


def _about(folder: Path, error: OSError) -> bool:
    """Whether the folder, a file in it or the disk is what could not be written."""
    name = error.filename
    return error.errno in FULL or (isinstance(name, str) and Path(name).is_relative_to(folder))
