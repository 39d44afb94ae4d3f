"""Users' mistakes, each reported in one sentence that names the thing and the fix."""

import os
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from multiprocessing import parent_process
from os import PathLike


class UnalikeError(Exception):
    """A user's mistake; the command line prints one sentence and exits with code 2."""


class ConfigError(UnalikeError):
    """A setting that is unknown, of the wrong type, out of range, or in conflict with another."""


class DataError(UnalikeError):
    """Data that are absent, malformed, or cannot be partitioned as asked."""


class RunError(UnalikeError):
    """A run folder that is missing, in use, damaged or changed, or a run that cannot continue."""


class Damaged(RunError):
    """A file of a run folder that is not what it was when it was written."""


class OwnCodeError(UnalikeError):
    """Code of the user's own that failed while it ran: its lines, a sentence, and exit code 1."""

    def __init__(self, message: str, frames: str = "") -> None:
        """``frames`` are those of the traceback that lie in the user's files."""
        super().__init__(message)
        self.frames = frames


class RunWarning(UserWarning):
    """Something to know about a run that continues; the command line prints it alone."""


@cache
def warn_once(text: str, stacklevel: int = 4) -> None:
    """Warn unless it was said before, here or by the process that started this one."""
    if parent_process() is None:
        warnings.warn(text, RunWarning, stacklevel=stacklevel)


def warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """A warning as the command line shows it; for ``warnings.formatwarning``."""
    if issubclass(category, RunWarning):
        return f"warning: {message}\n"
    return _elsewhere(message, category, filename, lineno, line)


_elsewhere = warnings.formatwarning


FEW = 12  # names that may all be shown beside the nearest


def unknown(
    kind: str, name: str, known: Iterable[str], described: Sequence[str] = ()
) -> ConfigError:
    """The error for a name that is in no table: the nearest valid name, and all if few or far.

    ``described`` are names whose descriptions hold the word.
    """
    if len(described) == 1:
        return ConfigError(f"unknown {kind} '{name}': did you mean '{described[0]}'?")
    known = sorted(known)
    plain = {each.lower(): each for each in reversed(known)}
    near = get_close_matches(name.lower(), plain, n=1, cutoff=0.5)
    hint = [f"did you mean '{plain[near[0]]}'?"] if near else []
    if not near or len(known) <= FEW:
        hint.append(f"valid names are {', '.join(known)}.")
    return ConfigError(f"unknown {kind} '{name}': {' '.join(hint)}")


def no_such(
    kind: str, path: str | PathLike[str], otherwise: str = "check the path", where: str = ""
) -> str:
    """That there is no such file or folder: the one of nearly this name, or what to do."""
    name = os.fspath(path)
    parent, last = os.path.split(name.rstrip(os.sep))
    near = get_close_matches(last, _inside(parent or os.curdir, kind), n=1, cutoff=0.75)
    said = f"there is no {kind} '{name}'{where}"
    if not near:
        return f"{said}; {otherwise}."
    return f"{said}: did you mean '{os.path.join(parent, near[0])}'?"


def _inside(folder: str, kind: str) -> list[str]:
    """The names in a folder of what may have been meant."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if ("folder" if entry.is_dir() else "file") in kind.split()
            )
    except OSError:
        return []


def counted(number: int, thing: str) -> str:
    """So many of a thing, in a sentence.

    >>> counted(1, "round"), counted(2, "round")
    ('1 round', '2 rounds')
    """
    return f"{number} {thing}{'s' * (number != 1)}"
