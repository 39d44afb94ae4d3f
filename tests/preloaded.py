"""Programs of this environment, forked from one process that has imported them already.

Flower starts a Python process for every message, and each spends a second on imports. A folder of
small programs with the same names, put first in PATH, asks this process to fork instead. What runs
is the program itself: its own arguments, environment, directory, streams and exit status.
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

ASK = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect({path!r})
    name = os.path.basename(sys.argv[0])
    told = json.dumps([[name, *sys.argv[1:]], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(s, [len(told).to_bytes(8, "big")], [0, 1, 2])
    s.sendall(told)
    sys.exit(int.from_bytes(s.recv(1) or b"\\1", "big"))
"""


class Preloaded:
    """The process and the folder of programs that ask it."""

    def __init__(self, folder: Path, names: Sequence[str], env: dict[str, str]) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        path = folder / "fork.sock"
        command = [sys.executable, __file__, str(path), *names]
        with (folder / "preloaded.log").open("wb") as log:
            self.process = subprocess.Popen(
                command, env=env, stdout=log, stderr=log, start_new_session=True
            )
        for name in names:
            program = self.bin / name
            program.write_text(ASK.format(python=sys.executable, path=str(path)))
            program.chmod(0o755)
        end = time.monotonic() + 60
        while not path.exists():
            said = (folder / "preloaded.log").read_text()
            assert self.process.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.05)

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)  # and all that were forked and are not over
        self.process.wait()


def _asked(caller: socket.socket) -> list[str]:
    """Become the process that a caller asks for."""
    size, streams, _, _ = socket.recv_fds(caller, 8, 3)
    with caller.makefile("rb") as stream:
        command, place, env = json.loads(stream.read(int.from_bytes(size, "big")))
    child = os.fork()
    if child:
        _watch(caller, child)
    caller.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(place)
    os.environ.clear()
    os.environ.update(env)
    return command


def _watch(caller: socket.socket, child: int) -> None:
    """Tell the caller how its process ended; without a caller, end it."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            caller.send(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
            os._exit(0)
        if select.select([caller], [], [], 0.02)[0]:
            os.kill(child, signal.SIGKILL)
            os._exit(0)


def _next(path: str) -> list[str]:
    """Wait and fork; returns in the new processes only."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}.new")
        server.listen(64)
        os.rename(f"{path}.new", path)
        while True:
            caller, _ = server.accept()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who watch
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return _asked(caller)
            caller.close()


if __name__ == "__main__":
    found = {e.name: e for e in entry_points(group="console_scripts")}
    programs = {name: found[name].load() for name in sys.argv[2:]}
    import httpcore  # noqa: F401

    import unalike.deploy.flower.coordinator
    import unalike.deploy.flower.site
    import unalike.deploy.site.worker  # noqa: F401  # with torch, grpc and all that they import

    gc.collect()
    gc.freeze()  # what is imported stays shared
    sys.argv = _next(sys.argv[1])
    status = 0
    try:
        programs[sys.argv[0]]()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # taking modules apart would copy them all, a second for each process
