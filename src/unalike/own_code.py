"""Code of the user's own, named by its Python file."""

import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from sysconfig import get_path
from traceback import extract_tb, format_list
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from unalike.errors import ConfigError, OwnCodeError, UnalikeError

_NOT_OWN = (  # folders in which no code of the user's lies
    str(Path(__file__).parent),
    *map(get_path, ("stdlib", "purelib", "platlib")),
)


class Named(NamedTuple):
    """The settings in which a file and what it defines are named, which may be the same one."""

    file: str
    attribute: str


def table(key: str) -> Named:
    """Those of a table with a key for each."""
    return Named(f"{key}.file", f"{key}.attribute")


def load(keys: Named, file: str, attribute: str) -> Any:
    """Run the file and take what it defines."""
    if not callable(found := getattr(run(keys.file, file), attribute, None)):
        raise ConfigError(
            f"'{Path(file)}' has no function or class '{attribute}'; name one that it has in "
            f"{keys.attribute}."
        )
    return found


def run(key: str, file: str) -> ModuleType:
    """Run the file, which the setting ``key`` names, as a module of its own."""
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"{key} names '{path}', which does not exist in '{Path.cwd()}'.")
    # Under a name of its own, since a file may be called like a module that others import.
    spec = spec_from_file_location(f"_own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{key} '{path}' is not a Python file (.py).")
    code = module_from_spec(spec)
    sys.modules[spec.name] = code  # where dataclasses look up annotations
    try:
        with staying():  # paths of a configuration count from where it was started
            spec.loader.exec_module(code)
        if sys.stdout is not None and sys.stdout.closed:
            raise ConfigError(f"{key} '{path}' closes the standard output; leave it open.")
    except (UnalikeError, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit must not end the calling program
        raise ConfigError(f"{key} '{path}' fails when it is run: {reason(error)}.") from error
    return code


def reason(error: BaseException) -> str:
    """An error in a few words, with the last line of the user's own code on the way to it."""
    text = str(error).strip().splitlines()
    first = re.split(r"\.\s+(?=[A-Z])", text[0], maxsplit=1)[0] if text else ""  # one sentence
    said = f"{type(error).__name__}: {first.rstrip('.')}" if text else type(error).__name__
    own = [frame for frame in extract_tb(error.__traceback__) if _is_own(Path(frame.filename))]
    if not own:
        return said
    file = Path(own[-1].filename)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f"{said} (line {own[-1].lineno} of '{shown}')"


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Before a run: whatever the user's code raises becomes one sentence."""
    try:
        with staying():
            yield
    except (UnalikeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not any(_is_own(Path(f.filename)) for f in extract_tb(error.__traceback__)):
            raise
        raise ConfigError(f"{what} fails: {reason(error)}.") from error


@contextmanager
def blamed(files: Collection[str], when: str) -> Iterator[None]:
    """In a run: an error that comes through these files is theirs, and says so."""
    try:
        with staying():
            yield
    except (UnalikeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        beside = {Path(file).resolve().parent for file in files}
        trace = extract_tb(error.__traceback__)
        own = [f for f in trace if Path(f.filename).resolve().parent in beside]
        if not own or not _is_own(Path(own[-1].filename)):
            raise
        frames = "".join(format_list(own))
        raise OwnCodeError(f"your own code failed in {when}: {reason(error)}.", frames) from error


@dataclass
class _Exit:
    """``os._exit`` while users' code may run, in any number of threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: int = 0  # how many are in ``staying``
    leave: Callable[[int], NoReturn] = os._exit
    here: int = 0  # the process that stays

    def enter(self) -> None:
        with self.lock:
            if not self.inside:
                self.leave, self.here = os._exit, os.getpid()
                os._exit = self.answer
            self.inside += 1

    def exit(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:  # threads need not end in the order in which they began
                os._exit = self.leave  # type: ignore[assignment]

    def answer(self, status: int) -> NoReturn:
        if os.getpid() == self.here and _is_own(Path(sys._getframe(1).f_code.co_filename)):
            raise SystemExit(status)
        self.leave(status)


_EXIT = _Exit()


@contextmanager
def staying() -> Iterator[None]:
    """Whatever the user's code does, this process stays, and stays in its folder.

    Their ``os._exit`` is an error like ``sys.exit``: it ends a process without a word. Not in a
    process that their code forked, and nobody else's: a watchdog must be able to leave.
    """
    folder = os.getcwd()
    _EXIT.enter()
    try:
        yield
    finally:
        _EXIT.exit()
        os.chdir(folder)


def _is_own(file: Path) -> bool:
    return file.is_file() and not any(map(file.is_relative_to, _NOT_OWN))
