"""What must hold whatever goes in: it works, one sentence, or the user's own line; never else."""

import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unalike.cli.main import main
from unalike.errors import OwnCodeError, UnalikeError

COUNTS: Counter[tuple[str, str]] = Counter()  # (kind of case, what came of it)


def attempt(kind: str, act: Callable[[], Any], shown: object = "") -> Any:
    """Do something in this process; what it returns, or None if it was refused in one sentence."""
    try:
        found = act()
    except UnalikeError as error:
        said = str(error)
        assert said, f"{kind}: an empty sentence for {shown!r:.500}"
        COUNTS[kind, "own code" if isinstance(error, OwnCodeError) else "refused"] += 1
        return None
    except Exception as error:
        COUNTS[kind, "failed"] += 1
        raise AssertionError(f"{kind}: {type(error).__name__} for {shown!r:.1500}") from error
    COUNTS[kind, "survived"] += 1
    return found


class Outcome(NamedTuple):
    """What a process of its own came to."""

    code: int | None  # None: it had to be killed
    out: str
    err: str


def call(
    arguments: Sequence[str],
    cwd: Path,
    prepare: Callable[[], None] = lambda: None,
    seconds: float = 120,
) -> Outcome:
    """``unalike`` in a forked process, which has everything imported already."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(arguments, cwd, prepare, out.fileno(), err.fileno())
        code, end = None, time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.005)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return Outcome(code, *(f.read().decode(errors="replace") for f in (out, err)))


def _become(
    arguments: Sequence[str], cwd: Path, prepare: Callable[[], None], out: int, err: int
) -> None:
    code = 99
    try:
        os.setsid()
        os.chdir(cwd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.argv = ["unalike", *arguments]
        prepare()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            traceback.print_exc()
            code = 70
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def judge(kind: str, outcome: Outcome, shown: object = "") -> str:
    """What came of it; an AssertionError if it is nothing that may be."""
    code, said = outcome.code, outcome.err.strip().splitlines()
    errors = [line for line in said if line.startswith("error: ")]
    what = {0: "survived", 1: "own code", 2: "refused"}.get(code if code is not None else -1, "")
    fine = bool(what) and "Traceback (most recent call last)" not in outcome.err
    fine = fine and (code == 0 or (len(errors) == 1 and said[-1] == errors[0]))
    fine = fine and (code != 1 or "your own code failed" in errors[0])
    COUNTS[kind, what if fine else "failed"] += 1
    assert fine, f"{kind}: exit code {code} for {shown!r:.1500}\n{outcome.err[-3000:]}"
    return what
