"""The runs behind docs/results: comparison files worked off by processes on a GPU and on cores.

    UNALIKE_DATA=FOLDER python benchmarks/evidence.py benchmarks/evidence/*.toml \
        --gpu 6 --beside 5 --cpu 8 --state under-way --seconds 1500 --out records.jsonl

A file is what ``unalike compare FILE`` takes, and a cell of it is the same run here as there; here
it leaves one line instead of a folder. One process after the other takes the next job of any file:
a cell, or several seeds of one. Seeds are the outermost loop, so that what is finished when time is
up is balanced. A word such as ``vae:mnist:niid2:torch:0.9`` stands for runs of ``vae_niid2.py``;
one with a weight of 0 trains the encoders that others wait for.

What is done, and in which order:

FILE ... then FILE ...   files after the word ``then`` come after all seeds of those before it
--later WORDS            cells that match this pattern come last
--known SHORT            leaves out what that file of short lines holds (docs/results/runs.jsonl)
--out FILE               one line a run is added there; runs that it holds are left out, too
--seeds N                of the words for the VAE
--list                   only says which jobs there are, in their order, with what is known of
                         their cost from lines of --out

Where:

--gpu N, --cpu N         processes that share the GPU, and processes with a core each; a file that
                         says ``device = "cuda"`` in its [engine] waits for the GPU
--on-gpu WORDS           cells that match run on the GPU although their file says otherwise
--beside N               so many seeds of a cell are one job of the GPU; their clients train in the
                         same calls
--device cpu             what the processes of --gpu compute on, to rehearse without a GPU
--examples FOLDER        datasets that another machine has stored there
--store NAME ...         only stores these datasets of the files there

Stopping and going on:

--state FOLDER           every run under way has a checkpoint there; the next call with this folder,
                         here or on another machine, continues from it, and begins with such runs
--every SECONDS          between two checkpoints, and between two lines about each job; a run whose
                         checkpoints take long makes fewer, so that they take a tenth of its time
--seconds SECONDS        then time is up: no job begins, and those under way are stopped
--grace SECONDS          that runs which are being stopped are waited for

SIGINT, SIGTERM and the end of --seconds let every run finish its round and save it; then the
processes end by themselves, and this one after them. One that is not done after --grace is left to
end by itself, since killing a process that uses a GPU may harm others there. A second signal ends
this process, and those on cores, at once. SIGTERM to a process that plays runs takes only that one
away. Without --state what is under way is lost, so no job begins that would end too late as far as
is known. The jobs of the VAE have no checkpoints: they are stopped as well, and begin again.

A checkpoint is that of ``unalike run`` and belongs to the settings, the data and the version it was
made with: with others the run fails with a sentence. On another kind of device it begins anew.
A server whose numbers are not finite cannot be saved, so such a run fails, as it does there. A run
for which the GPU had no memory left while others used it is put back, and one process less shares
the GPU from then on.

A run alone on a CPU that was stopped and continued leaves the same line, to the bit, apart from its
seconds. On a GPU that holds as far as PyTorch's kernels there are repeatable. Side by side, seeds
go on together, each from its own checkpoint, so how many clients are in a call may differ for some
rounds, and with it the last digits: numbers agree to single precision, as they do with a run alone.

    python benchmarks/evidence.py --out records.jsonl --short docs/results/runs.jsonl

adds to that file what tables need of the lines of --out.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from evidence_jobs import STOP, store
from evidence_lines import same, shorten
from evidence_queue import INNER, SEVERAL, Queue, about, beside, costs, jobs_of, resumed

from unalike.errors import counted
from unalike.run.interrupts import interrupts

HERE = Path(__file__).resolve().parent
POLL = 0.1  # seconds
NO_MEMORY = ("OutOfMemoryError", "ALLOC_FAILED")  # in what PyTorch says


class Worker:
    """A process that plays jobs, as this one sees it."""

    def __init__(self, device: str, examples: str, every: float) -> None:
        """It is started; on which device it plays is said once."""
        command = [sys.executable, str(HERE / "evidence_jobs.py"), device, examples, str(every)]
        self.device, self.job, self.told = device, dict[str, Any](), dict[str, Any]()
        self.heard = time.monotonic()  # when it said how far it is, or got a job
        # Ctrl-C is for this process alone: it tells the others.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def send(self, text: str) -> None:
        """One line; a process that has ended does not read it, which ``answers`` shows."""
        with suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()

    def begin(self, job: dict[str, Any]) -> None:
        """One more job, of which nothing is known yet."""
        self.job, self.told, self.heard = job, {}, time.monotonic()
        self.send(json.dumps(job))

    def answers(self) -> Iterator[dict[str, Any]]:
        """What it says, until it ends; how far it is stays here."""
        for text in self.process.stdout:
            told = json.loads(text)
            if "rounds" in told:
                self.told, self.heard = told, time.monotonic()
            else:
                yield told

    def dismiss(self) -> None:
        """There is nothing more to do for it."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()

    def far(self) -> str:
        """How far its job is."""
        since = time.monotonic() - self.heard
        if not self.told:
            return f"preparing for {since:.0f} s"
        rounds, left = f"round {self.told['round']} of {self.told['rounds']}", self.told["left"]
        rest = "" if left is None else f", about {max(left - since, 0):.0f} s left"
        return f"{rounds}, {self.told['seconds'] + since:.0f} s{rest}"


class Runner:
    """Processes that work off a queue, and what they say."""

    def __init__(self, queue: Queue, out: Path, chosen: argparse.Namespace) -> None:
        """Nothing is begun yet."""
        self.queue, self.out, self.chosen = queue, out, chosen
        self.begun, self.lock = time.time(), threading.Lock()  # of what is printed and written
        self.stopping, self.total, self.finished = False, len(queue.jobs), 0
        self.workers = list[Worker]()  # those that have a job

    def say(self, text: str) -> None:
        """To whoever watches, with the time."""
        sys.stdout.write(f"{time.time() - self.begun:.0f} s: {text}\n")  # whole, from any thread
        sys.stdout.flush()

    def next(self, gpu: bool) -> dict[str, Any] | None:
        """A job, if there is one or will be."""
        while not self.stopping:
            if (job := self.queue.take(gpu)) is not None:
                return job
            if not self.queue.waits(gpu):
                return None
            time.sleep(POLL)
        return None

    def serve(self, device: str, gpu: bool) -> None:
        """Feeds one process; one that failed gives way to another."""
        worker, ended = None, "done"
        while ended not in ("stopped", "crowded") and (job := self.next(gpu)) is not None:
            if worker is None:
                worker = Worker(device, self.chosen.examples, self.chosen.every)
            with self.lock:
                worker.begin(job)
                self.workers.append(worker)
            if self.stopping:  # it was not yet among those who were told
                worker.send(STOP)
            ended = self.play(worker, job)
            with self.lock:
                self.workers.remove(worker)
                self.finished += ended == "done"
            if ended != "done":
                worker.dismiss()
                worker = None
        if worker is not None:
            worker.dismiss()

    def play(self, worker: Worker, job: dict[str, Any]) -> str:
        """How a job ended, with a line for each of its runs that did."""
        open_runs, crowded = set(range(len(job["cells"]))), list[int]()
        seconds = 0.0
        for told in worker.answers():
            if "over" in told:
                if told["over"] == "done":
                    self.queue.done(job, seconds)
                if crowded:
                    self.queue.put_back(job, crowded)
                return "crowded" if crowded else str(told["over"])
            open_runs.discard(told["run"])
            if self.crowded(worker, told["found"]):
                crowded.append(told["run"])
                continue
            seconds = max(seconds, told["seconds"])
            self.end(worker, job, told["run"], told["found"], told["seconds"])
        if self.stopping:
            self.say(f"{about(job)}: the process ended")
            return "stopped"
        for i in open_runs:
            self.end(worker, job, i, {"failed": "the process ended"}, 0.0)
        return "failed"

    def crowded(self, worker: Worker, found: dict[str, Any]) -> bool:
        """Whether a run failed because others had taken the GPU's memory."""
        if not any(word in found.get("failed", "") for word in NO_MEMORY):
            return False
        with self.lock:
            others = sum(other is not worker and other.device != "cpu" for other in self.workers)
        if others:
            self.say(f"{about(worker.job)}: no memory beside {others} others, put back")
        return worker.device != "cpu" and others > 0

    def end(
        self, worker: Worker, job: dict[str, Any], i: int, found: dict[str, Any], seconds: float
    ) -> None:
        """Write what came of a run; its checkpoint goes when its result is on the disk."""
        own = {name: job[f"{name}s"][i] for name in SEVERAL}
        name = about({**job, "seeds": [own["seed"]]})
        if "stopped" in found:
            kept = f"saved in {own['state']}" if own["state"] else "not saved"
            self.say(f"{name}: stopped after round {found['stopped']}, {kept}")
            return
        whole = {k: v for k, v in {**job, **own}.items() if k not in INNER}
        whole = {k: v for k, v in whole.items() if k not in [f"{n}s" for n in SEVERAL]}
        how = {"on": worker.device, "beside": len(job["cells"]), "seconds": seconds}
        with self.lock, self.out.open("a") as file:
            file.write(json.dumps({**whole, **how, **found}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        why = f", failed: {found['failed']}" if "failed" in found else ""
        more = counted(len(self.queue.jobs), "job")
        self.say(f"{name}: ended on {worker.device} in {seconds} s{why}; {more} to begin")
        if own["state"] and "failed" not in found:
            shutil.rmtree(own["state"], ignore_errors=True)

    def tick(self) -> None:
        """A line about each job under way."""
        with self.lock:
            under_way = [f"{about(worker.job)}: {worker.far()}" for worker in self.workers]
        for text in under_way:
            self.say(text)

    def stop(self, why: str) -> None:
        """Every run ends its round."""
        with self.lock:
            self.stopping = True
            some = list(self.workers)
        self.say(f"{why}: {counted(len(some), 'job')} under way")
        for worker in some:
            worker.send(STOP)

    def leave(self, kill: bool) -> None:
        """End now; processes notice that, and end after their round unless they are killed."""
        for worker in list(self.workers):
            if kill and worker.device == "cpu":
                worker.process.kill()
            else:
                number = worker.process.pid
                self.say(f"{about(worker.job)}: process {number} ends by itself after its round")
        os._exit(1)  # threads wait for these processes

    def run(self) -> None:
        """Until everything is done, or time is up."""
        crew = [(self.chosen.device, True)] * self.chosen.gpu + [("cpu", False)] * self.chosen.cpu
        threads = [threading.Thread(target=self.serve, args=one, daemon=True) for one in crew]
        try:
            with interrupts(lambda: None) as asked:
                for thread in threads:
                    thread.start()
                tick, deadline = time.time() + self.chosen.every, 0.0
                while any(thread.is_alive() for thread in threads):
                    time.sleep(POLL)
                    late = time.time() >= self.queue.until
                    if not self.stopping and (late or asked()):
                        self.stop("time is up" if late else "stopping")
                        deadline = time.time() + self.chosen.grace
                    if time.time() >= tick:
                        self.tick()
                        tick = time.time() + self.chosen.every
                    if self.stopping and time.time() >= deadline:
                        self.leave(kill=False)
        except KeyboardInterrupt:  # the second request
            self.leave(kill=True)
        self.say(f"{self.finished} of {counted(self.total, 'job')} finished")


def listed(queue: Queue) -> None:
    """The jobs in their order, and what is known of their cost."""
    for i, job in enumerate(queue.jobs):
        where = "GPU" if job["gpu"] else "core"
        begun = f", begun: {job['done']} of {job['rounds']} rounds" if job["done"] else ""
        cost = queue.cost(job)
        known = f", {cost:.0f} s before" if cost else ""
        print(f"{i + 1}. {about(job)}, {where}{begun}{known}")


def options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("files", nargs="*", help="comparisons, vae:..., then")
    options.add_argument("--gpu", type=int, default=0, help="processes that share the GPU")
    options.add_argument("--cpu", type=int, default=1, help="processes with a core each")
    options.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="of --gpu")
    options.add_argument("--seeds", type=int, default=5, help="of the VAE")
    options.add_argument("--on-gpu", default="", help="cells that match run there as well")
    options.add_argument("--beside", type=int, default=1, help="seeds in one job of the GPU")
    options.add_argument("--later", default="", help="cells that match come last")
    options.add_argument("--known", default="", help="short lines of runs that are there already")
    options.add_argument("--state", default="", help="folder for checkpoints of runs under way")
    options.add_argument("--every", type=float, default=30.0, help="seconds between checkpoints")
    options.add_argument("--seconds", type=float, default=1e9, help="then runs are stopped")
    options.add_argument("--grace", type=float, default=120.0, help="seconds to wait for them")
    options.add_argument("--list", action="store_true", help="only list the jobs")
    options.add_argument("--out", default="evidence.jsonl", help="JSON lines, one a run; appended")
    options.add_argument("--short", help="only write there what tables need of the lines of --out")
    options.add_argument("--examples", default="", help="folder of stored datasets")
    options.add_argument("--store", nargs="*", help="only store these datasets there")
    return options


def main() -> None:
    chosen = options().parse_args()
    out, until = Path(chosen.out), time.time() + chosen.seconds
    if chosen.short:
        return shorten(out, Path(chosen.short))
    if chosen.store is not None:
        return store(chosen.files, chosen.store, Path(chosen.examples))
    jobs = jobs_of(chosen.files, chosen.seeds, chosen.later, chosen.on_gpu)
    lines = list[dict[str, Any]]()
    if out.is_file():
        lines = [json.loads(text) for text in out.read_text().splitlines()]
        known = {(x["file"], x["cell"]) for x in lines if "failed" not in x}
        jobs = [j for j in jobs if (j["file"], j["cell"]) not in known]
    if chosen.known:
        names = {same(json.loads(text)) for text in Path(chosen.known).read_text().splitlines()}
        jobs = [j for j in jobs if same({**j, "file": Path(j["file"]).stem}) not in names]
    jobs = beside(resumed(jobs, chosen.state, chosen.device), chosen.beside)
    data = Path(os.environ.get("UNALIKE_DATA", "."))
    queue = Queue(jobs, data, until, costs(lines))
    if chosen.list:
        return listed(queue)
    begun = sum(job["done"] > 0 for job in jobs)
    print(f"{counted(len(jobs), 'job')}, {begun} of them begun", flush=True)
    Runner(queue, out, chosen).run()


if __name__ == "__main__":
    main()
