"""``unalike`` in processes of their own that start at once: forks of one that imported everything.

The process that forks starts no thread and reads no table, since whatever polars or a pool of
threads holds would be missing in its children. ``python -m breaking.server`` is that process: a
request is a line of JSON on its standard input, the answer a line on its standard output.
"""

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

PRELOADED = """torch polars PIL.Image sklearn.datasets scipy.stats networkx safetensors.torch altair
optuna unalike.cli.advising unalike.cli.comparing unalike.cli.listing unalike.cli.measuring
unalike.cli.outcome unalike.cli.reporting unalike.cli.training unalike.cli.tuning"""


class Outcome(NamedTuple):
    """What a process of its own came to."""

    code: int | None  # None: it did not end in time
    out: str
    err: str


class Limits(NamedTuple):
    """What a process may use; 0 is as much as it likes."""

    seconds: float = 120
    memory: int = 0  # bytes of addresses
    descriptors: int = 0
    written: int = 0  # bytes of one file


AS_IT_LIKES = Limits()


def call(
    arguments: list[str],
    cwd: Path,
    hook: tuple[str, list[Any]] | None = None,
    limits: Limits = AS_IT_LIKES,
) -> Outcome:
    """Run a command line; ``hook`` names a function (module:name) that is called before it."""
    running = _running()
    assert running.stdin is not None
    assert running.stdout is not None
    request = {"arguments": arguments, "cwd": str(cwd), "hook": hook, "limits": limits}
    running.stdin.write(json.dumps(request) + "\n")
    running.stdin.flush()
    return Outcome(*json.loads(running.stdout.readline()))


@cache
def _running() -> "subprocess.Popen[str]":
    here = Path(__file__).parent.parent
    path = [str(here), str(here.parent / "src"), *os.environ.get("PYTHONPATH", "").split(":")]
    return subprocess.Popen(
        [sys.executable, "-W", "default", "-m", "breaking.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": ":".join(filter(None, path)),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
        },
    )


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in PRELOADED.split():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:  # a part that is not installed
            continue
    _warm_up()
    for line in sys.stdin:
        answers.write(json.dumps(_forked(json.loads(line))) + "\n")
        answers.flush()


def _warm_up() -> None:
    """Load what is loaded in the first round only."""
    import torch

    import unalike

    torch.set_num_threads(1)
    digits = unalike.federate(unalike.dataset("digits"), unalike.partitioner("iid", clients=3))
    unalike.train(digits, "logistic", "fedavg", rounds=1)


def _forked(request: dict[str, Any]) -> tuple[int | None, str, str]:
    limits = Limits(*request["limits"])
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(request, limits, out, err)
        code, end = None, time.monotonic() + limits.seconds
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.005)
        else:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return code, texts[0], texts[1]


def _become(request: dict[str, Any], limits: Limits, out: IO[bytes], err: IO[bytes]) -> None:
    from unalike.cli.main import main as command_line

    code = 99
    leave = os._exit  # a case may have put another in its place
    try:
        os.setsid()
        os.chdir(request["cwd"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        sys.argv = ["unalike", *request["arguments"]]
        _limit(limits)
        if request["hook"]:
            named, values = request["hook"]
            module, _, name = named.partition(":")
            getattr(importlib.import_module(module), name)(*values)
        try:
            command_line()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            traceback.print_exc()
            code = 70
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
    finally:
        leave(code)


def _limit(limits: Limits) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a full disk is an error, not an end
    for what, most in (
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_NOFILE, limits.descriptors),
        (resource.RLIMIT_FSIZE, limits.written),
    ):
        if most:
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()
