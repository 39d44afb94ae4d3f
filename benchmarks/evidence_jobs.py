"""The processes of benchmarks/evidence.py that play the runs: one job after the other.

A job is one run, or several whose clients train in the same calls. It comes as a line on standard
input; answers go to standard output, a line each:

{"round": 3, "rounds": 9, "seconds": 6.1, "left": 12.0}   how far the job is
{"run": 0, "found": {...}, "seconds": 18.3}               its first run ended, failed or was stopped
{"over": "done"}                                          or "failed", or "stopped"

The line ``stop``, the end of the input, SIGINT and SIGTERM mean the same: every run ends its round
and saves it, then the process ends by itself. A process that uses a GPU is never killed.
"""

import gc
import json
import os
import pickle
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from evidence_lines import digits, line

SOON = 1.0  # seconds between two reports, at most
STOP = "stop"


class Stopped(Exception):
    """A run that was asked to stop, after so many rounds."""


class Watch:
    """What goes between runs under way and the main process: how far they are, and when to stop."""

    def __init__(self, tell: Any, every: float) -> None:
        """Checkpoints are made ``every`` so many seconds."""
        self.tell, self.every, self.stop = tell, every, False
        self.lock = threading.Lock()
        self.begin(0)

    def begin(self, runs: int) -> None:
        """A job with so many runs."""
        self.begun, self.told = time.monotonic(), 0.0
        self.far: list[Any] = [None] * runs  # (round, rounds, seconds, seconds left) of each
        self.marks: list[Any] = [[] for _ in range(runs)]  # (round, when), the first two of each

    def see(self, run: int, done: int, rounds: int, before: float) -> None:
        """A run is about to begin after ``done`` rounds, or has played one more."""
        with self.lock:
            now, marks = time.monotonic(), self.marks[run]
            if len(marks) < 2:
                marks.append((done, now))
            # The first round also compiles, so others are told by it only if it is the only one.
            since, when = marks[-1] if done > marks[-1][0] else marks[0]
            pace = (now - when) / (done - since) if done > since else None
            left = None if pace is None else round(pace * (rounds - done), 1)
            self.far[run] = done, rounds, round(before + now - self.begun, 1), left
            known = [each for each in self.far if each is not None]
            if now - self.told >= min(SOON, self.every / 2):
                self.told = now
                behind = min(known, key=lambda each: each[0])
                lefts = [each[3] for each in known if each[3] is not None]
                seconds = max(each[2] for each in known)
                most = max(lefts, default=None)
                about = {"round": behind[0], "rounds": behind[1], "seconds": seconds, "left": most}
                self.tell(about)

    def ended(self, run: int, found: dict[str, Any], before: float) -> None:
        """A run has a result, failed or was stopped."""
        with self.lock:
            self.far[run] = None  # nobody waits for it
        seconds = round(before + time.monotonic() - self.begun, 1)
        self.tell({"run": run, "found": found, "seconds": seconds})


def place(data: str) -> str:
    """The file of a stored dataset."""
    return f"{json.loads(data)['name']}-{zlib.crc32(data.encode()):08x}.pickle"


@lru_cache(maxsize=3)
def examples(data: str, folder: str) -> Any:
    """A dataset; where its reader's packages are missing, as another machine has stored it."""
    from unalike.run.configuration.config import Named, chosen

    raw, stored = json.loads(data), Path(folder) / place(data)
    if folder and stored.is_file():
        return pickle.loads(stored.read_bytes())
    return chosen("data", Named(name=raw.pop("name"), settings=raw)).load()


def store(files: list[str], names: list[str], folder: Path) -> None:
    """Datasets of the files, for a machine that cannot read them itself."""
    from unalike.compare.specification.spec import load

    folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        for cell in load(path).cells:
            data = json.dumps(cell.config.resolved()["data"], sort_keys=True)
            if cell.config.data.name in names and not (folder / place(data)).exists():
                (folder / place(data)).write_bytes(pickle.dumps(examples(data, "")))


def federation(config: Any, folder: str) -> Any:
    """As ``unalike.run.experiment.build`` makes it, around a dataset that is read once."""
    from unalike.federation.build import federate
    from unalike.run.configuration.config import chosen

    return federate(
        examples(json.dumps(config.resolved()["data"], sort_keys=True), folder),
        chosen("partition", config.partition),
        [chosen("shift", s) for s in config.shift],
        validation=config.split.validation,
        test=config.split.test,
        new_clients=config.split.new_clients,
        adapt=bool(config.evaluation.new_client_steps),
        seed=config.seed,
    )


def run(configs: list[Any], states: list[str], folder: str, watch: Watch) -> list[dict[str, Any]]:
    """Some cells.

    Each has a checkpoint of its own and goes on from there: whoever is behind catches up first.
    """

    def make(config: Any) -> Any:
        from unalike.run.experiment.build import assemble
        from unalike.run.experiment.task import task

        dealt = federation(config, folder)
        return assemble(config, dealt, task(config, dealt.examples))

    makes = [partial(make, config) for config in configs]
    return beside(makes, lambda made, i: tried(made, i, states[i], watch), watch)


def beside(
    makes: list[Callable[[], Any]], play: Callable[[Any, int], dict[str, Any]], watch: Watch
) -> list[dict[str, Any]]:
    """Experiments that are made and played; of several, the clients train in the same calls."""
    from unalike.run.side_by_side import side_by_side

    found, ready, number = dict[int, dict[str, Any]](), list[Any](), dict[int, int]()
    for i, make in enumerate(makes):
        try:
            made = make()
        except Exception as error:
            found[i] = failure(error)
            watch.ended(i, found[i], 0.0)
        else:
            ready.append(made)
            number[id(made)] = i

    def one(made: Any) -> None:
        i = number[id(made)]
        found[i] = play(made, i)

    if len(ready) == 1:
        one(ready[0])
    else:
        side_by_side(ready, one)
    return [found[i] for i in range(len(makes))]


def tried(made: Any, i: int, state: str, watch: Watch) -> dict[str, Any]:
    """What is kept of a run; it may fail, and those beside it go on."""
    from evidence_state import sitting

    before = 0.0
    try:
        with sitting(made, Path(state) if state else None, watch.every) as kept:
            before = kept.before
            found = played(made, i, kept, watch)
    except Stopped as stopped:
        found = {"stopped": stopped.args[0]}
    except Exception as error:
        found = failure(error)
    watch.ended(i, found, before)
    return found


def failure(error: Exception) -> dict[str, Any]:
    """What is written of a run that has no result."""
    return {"failed": f"{type(error).__name__}: {error}"[:500]}


def played(made: Any, i: int, kept: Any, watch: Watch) -> dict[str, Any]:
    """What is kept of a run that ends."""
    from unalike.run.rounds import conclusion, rounds

    total, dealt, clients = made.course.rounds, made.federation, dict[str, Any]()
    watch.see(i, kept.done, total, kept.before)
    if watch.stop:
        raise Stopped(kept.done)
    for step in rounds(made, kept.progress, kept.done):
        kept.see(step)
        watch.see(i, step.round, total, kept.before)
        if watch.stop and step.round < total:
            kept.store()
            raise Stopped(step.round)
    last = step.clients or {}  # the last round is always judged
    if dealt.n_clients <= 20:
        clients = {
            s: [float(v) for v in of["accuracy"]]
            for s, of in last.items()
            if isinstance(of, dict) and "accuracy" in of
        }
    if any(clients.values()) and dealt.marks:
        clients["marks"] = [", ".join(words) for words in dealt.marks]
    found = line(kept.records, conclusion(made, kept.records), clients)
    if curve := last.get("steps"):
        found["steps"] = digits({k: curve[k] for k in ("steps", "accuracy")})
    if points := last.get("line"):  # from the shared to each client's own model
        found["line"] = digits({"at": points["at"], "accuracy": points["local"]["accuracy"]})
    return found


def vaes(job: dict[str, Any], device: str, watch: Watch) -> list[dict[str, Any]]:
    """Seeds of one weight of the VAE; without weights each leaves the encoder that others need.

    They have no checkpoint: what was stopped begins again.
    """
    import vae_niid2

    from unalike.run.experiment.build import assemble
    from unalike.run.experiment.task import task

    chosen = vae_niid2.options().parse_args([])
    values = {n: job[n] for n in ("data", "partition", "init")}
    for name, value in {**values, "device": device, "tf32": device != "cpu"}.items():
        setattr(chosen, name, value)
    encoders = [Path(name) for name in job["encoders"]]
    encoders[0].parent.mkdir(exist_ok=True)

    def make(seed: int, encoder: Path) -> Any:
        weights = partial(vae_niid2.weights, chosen, job["alpha"], encoder)
        method = weights() if job["alpha"] else {"name": "fedavg"}
        config = vae_niid2.settings(chosen, seed, method)
        dealt = federation(config, "")
        made = assemble(config, dealt, task(config, dealt.examples))
        return vae_niid2.heard(made, chosen, job["alpha"]) if job["alpha"] else made

    def play(made: Any, i: int) -> dict[str, Any]:
        def see(step: Any) -> None:
            watch.see(i, step.round, made.course.rounds, 0.0)
            if watch.stop and step.round < made.course.rounds:
                raise Stopped(step.round)

        try:
            if job["alpha"]:
                line, _ = vae_niid2.run(made, see)
            else:
                line = vae_niid2.stage_one(made, encoders[i], see)
            found = digits(line, 4)
        except Stopped as stopped:
            found = {"stopped": stopped.args[0]}
        except Exception as error:
            found = failure(error)
        watch.ended(i, found, 0.0)
        return found

    makes = [partial(make, *one) for one in zip(job["seeds"], encoders, strict=True)]
    return beside(makes, play, watch)


def replace_engine(config: Any, device: str) -> Any:
    """The same run on this process's device."""
    return config.model_copy(
        update={"engine": config.engine.model_copy(update={"device": device, "workers": 1})}
    )


def listen(jobs: "SimpleQueue[str | None]", watch: Watch) -> None:
    """Take jobs in while others are played, and the wish to stop.

    Read without a buffer: Python cannot end while a thread waits in one.
    """
    with open(0, "rb", buffering=0, closefd=False) as lines:
        for text in lines:
            if text.strip() == STOP.encode():
                break
            jobs.put(text.decode())
    watch.stop = True
    jobs.put(None)


def teller(answers: Any) -> Any:
    """Answers, a line each, from whatever thread; if nobody reads them, runs are saved anyway."""
    lock = threading.Lock()

    def tell(what: dict[str, Any]) -> None:
        with lock:
            try:
                print(json.dumps(what), file=answers, flush=True)
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), answers.fileno())

    return tell


def work(device: str, folder: str, every: float) -> None:
    """Answer jobs until there are no more, one fails or all are to stop."""
    answers, sys.stdout = sys.stdout, sys.stderr
    watch, jobs = Watch(teller(answers), every), SimpleQueue[str | None]()

    def heard(number: int, frame: Any) -> None:
        watch.stop = True
        jobs.put(None)  # a SimpleQueue may be filled within a signal handler

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, heard)
    threading.Thread(target=listen, args=(jobs, watch), daemon=True).start()
    import torch

    from unalike.compare.specification.spec import load

    torch.set_num_threads(1)
    loaded = lru_cache(maxsize=None)(lambda path: {c.id: c for c in load(path).cells})
    while (text := jobs.get()) is not None and not watch.stop:
        job = json.loads(text)
        watch.begin(len(job["cells"]))
        if job["file"] == "vae":
            found = vaes(job, device, watch)
        else:
            cells = [loaded(job["file"])[cell] for cell in job["cells"]]
            configs = [replace_engine(cell.config, device) for cell in cells]
            found = run(configs, job["states"], folder, watch)
        gc.collect()
        if device != "cpu":
            torch.cuda.empty_cache()
        ends = [word for word in ("stopped", "failed") if any(word in one for one in found)]
        watch.tell({"over": ends[0] if ends else "done"})
        if ends:  # after a failure the device may be of no use to this process
            break


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], float(sys.argv[3]))
