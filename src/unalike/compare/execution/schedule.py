"""Cells over processes: one single-threaded process for each core, one in all on a GPU."""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType

from unalike.compare.execution.worker import STOP, Event, Job, serve
from unalike.errors import RunError

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass
class Worker:
    """A process and what it is busy with."""

    process: BaseProcess
    connection: Connection
    job: Job | None = None


@dataclass
class Schedule:
    """Runs jobs in order, as many at a time as there are processes.

    A job that fails, or whose process dies, is reported and the others continue. When ``stop`` is
    true, running jobs save themselves after their round and no more are begun.
    """

    processes: int
    tell: Callable[[Event], None]
    stop: Callable[[], bool] = lambda: False
    workers: list[Worker] = field(default_factory=list, init=False)

    def run(self, jobs: Sequence[Job]) -> None:
        """Until all are done, or stopped."""
        waiting, asked = deque(jobs), False
        try:
            while True:
                if self.stop() and not asked:
                    asked = True
                    waiting.clear()
                    for worker in self._busy():
                        worker.connection.send(STOP)
                self._assign(waiting)
                if not self._busy():
                    return
                for connection in wait([w.connection for w in self.workers], timeout=0.2):
                    self._hear(next(w for w in self.workers if w.connection is connection))
        finally:
            self._close()

    def _busy(self) -> list[Worker]:
        return [w for w in self.workers if w.job is not None]

    def _assign(self, waiting: deque[Job]) -> None:
        while waiting:
            idle = next((w for w in self.workers if w.job is None), None)
            if idle is None:
                if len(self.workers) >= self.processes:
                    return
                idle = _spawned()
                self.workers.append(idle)
            idle.job = waiting.popleft()
            try:
                idle.connection.send(idle.job)
            except BrokenPipeError:
                self._lost(idle)

    def _hear(self, worker: Worker) -> None:
        try:
            event: Event = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            self._lost(worker)
            return
        if event.kind in ("done", "stopped", "failed"):
            worker.job = None
        self.tell(event)

    def _lost(self, worker: Worker) -> None:
        """The process died without a word."""
        worker.process.join()
        self.workers.remove(worker)
        worker.connection.close()
        if worker.job is not None:
            self.tell(Event("failed", worker.job.id, text=_death(worker.process.exitcode)))

    def _close(self) -> None:
        """Let idle processes end; kill the others, whose cells can be resumed."""
        for worker in self.workers:
            if worker.job is not None:
                worker.process.kill()
            worker.connection.close()
        for worker in self.workers:
            worker.process.join(timeout=10)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self.workers.clear()


def _spawned() -> Worker:
    context = get_context("spawn")  # threads and CUDA do not survive a fork
    try:
        ours, theirs = context.Pipe()
        with _single_threaded(), _without_script():
            process = context.Process(target=serve, args=(theirs,), daemon=True)
            process.start()
    except OSError as error:
        raise RunError(
            f"a process of the comparison cannot be started: {error.strerror or error}; ask for "
            "fewer with --processes."
        ) from error
    theirs.close()
    return Worker(process, ours)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Numerical libraries read these variables once, when they are loaded."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _without_script() -> Iterator[None]:
    """A spawned process runs the script again that started it; nothing here needs that.

    A script that calls ``unalike.compare`` needs no ``if __name__ == "__main__"`` for it.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = ", perhaps out of memory" if -code == signal.SIGKILL else ""
        return f"its process was killed ({name}{hint})."
    return f"its process ended unexpectedly (exit code {code})."
