"""The runs behind docs/results: comparison files worked off by processes on a GPU and on cores.

    UNALIKE_DATA=FOLDER python benchmarks/evidence.py benchmarks/evidence/*.toml \
        --gpu 6 --cpu 8 --out records.jsonl

Files after the word ``then`` come after all seeds of those before it.

A file is what ``unalike compare FILE`` takes, and a cell of it is the same run here as there. Here
one process after the other takes the next cell of any file, whatever it is about, seed by seed, so
that what is finished when time is up is balanced; instead of a folder it leaves one line. A file
that says ``device = "cpu"`` in its [engine] waits for a core, the others for the GPU. A word such
as ``vae:mnist:niid2:torch:0.9`` stands for runs of ``vae_niid2.py``; one with a weight of 0 trains
the encoders that others wait for. ``--short docs/results/runs.jsonl`` adds to that file what tables
need of the new lines, and ``--known`` leaves out what it holds already.
"""

import argparse
import gc
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from evidence_lines import digits, line, same, shorten

HERE = Path(__file__).resolve().parent


def place(data: str) -> str:
    """The file of a stored dataset."""
    return f"{json.loads(data)['name']}-{zlib.crc32(data.encode()):08x}.pickle"


@lru_cache(maxsize=3)
def examples(data: str, folder: str) -> Any:
    """A dataset; where its reader's packages are missing, as another machine has stored it."""
    from unalike.run.build import chosen
    from unalike.run.config import Named

    raw, stored = json.loads(data), Path(folder) / place(data)
    if folder and stored.is_file():
        return pickle.loads(stored.read_bytes())
    return chosen("data", Named(name=raw.pop("name"), settings=raw)).load()


def federation(config: Any, folder: str) -> Any:
    """As ``unalike.run.build`` makes it, around a dataset that is read once."""
    from unalike.federation.build import federate
    from unalike.run.build import chosen

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


def run(configs: list[Any], folder: str) -> list[dict[str, Any]]:
    """Some cells, in memory; of several, the clients train in the same calls."""
    from unalike.run.abreast import abreast
    from unalike.run.build import assemble, task

    dealt = [federation(config, folder) for config in configs]
    both = zip(configs, dealt, strict=True)
    made = [assemble(config, data, task(config, data.examples)) for config, data in both]
    return [tried(made[0])] if len(made) == 1 else abreast(made, tried)


def tried(made: Any) -> dict[str, Any]:
    """What is kept of a run; it may fail, and those beside it go on."""
    try:
        return played(made)
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> dict[str, Any]:
    """What is written of a run that has no result."""
    return {"failed": f"{type(error).__name__}: {error}"[:500]}


def played(made: Any) -> dict[str, Any]:
    """What is kept of a run that ends."""
    from unalike.run.rounds import conclusion, rounds

    records, clients, steps, dealt = [], {}, {}, made.federation
    for step in rounds(made):
        records.append(step.record)
        if step.clients is not None and dealt.n_clients <= 20:
            clients = {
                s: [float(v) for v in of["accuracy"]]
                for s, of in step.clients.items()
                if isinstance(of, dict) and "accuracy" in of
            }
        if step.clients is not None and (curve := step.clients.get("steps")):
            steps = {k: curve[k] for k in ("steps", "accuracy")}
    if any(clients.values()) and dealt.marks:
        clients["marks"] = [", ".join(words) for words in dealt.marks]
    found = line(records, conclusion(made, records), clients)
    return {**found, "steps": digits(steps)} if steps else found


def vae(job: dict[str, Any], device: str) -> dict[str, Any]:
    """One weight of one federation of the VAE; its first stage leaves an encoder behind."""
    import vae_niid2

    from unalike.run.build import assemble, task

    chosen = vae_niid2.options().parse_args([])
    values = {n: job[n] for n in ("data", "partition", "init")}
    for name, value in {**values, "device": device, "tf32": device != "cpu"}.items():
        setattr(chosen, name, value)
    config = vae_niid2.settings(chosen, job["seed"], {"name": "fedavg"})
    dealt = federation(config, "")
    learned, encoder = task(config, dealt.examples), Path(job["encoder"])
    encoder.parent.mkdir(exist_ok=True)
    found = vae_niid2.stage_one(assemble(config, dealt, learned), encoder)
    if job["alpha"]:
        method = vae_niid2.weights(chosen, job["alpha"], encoder)
        config = vae_niid2.settings(chosen, job["seed"], method)
        found, _ = vae_niid2.run(assemble(config, dealt, learned))
    return digits(found, 4)


def work(device: str, folder: str) -> None:
    """A process that answers jobs, one a line, until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    import torch

    torch.set_num_threads(1)
    sys.path.insert(0, str(HERE))
    from unalike.compare.spec import load

    loaded = lru_cache(maxsize=None)(lambda path: {c.id: c for c in load(path).cells})
    for text in sys.stdin:
        job, begun = json.loads(text), time.perf_counter()
        try:
            if job["file"] == "vae":
                found: list[Any] = [vae(job, device)]
            else:
                cells = [loaded(job["file"])[cell] for cell in job["cells"]]
                found = run([replace_engine(cell.config, device) for cell in cells], folder)
        except Exception as error:
            found = [failure(error)] * len(job["cells"])
        gc.collect()
        if device != "cpu":
            torch.cuda.empty_cache()
        seconds = round(time.perf_counter() - begun, 1)
        print(json.dumps({"found": found, "seconds": seconds}), file=answers, flush=True)
        if any("failed" in one for one in found):  # the device may be of no use to this process
            break


def replace_engine(config: Any, device: str) -> Any:
    """The same run on this process's device."""
    return config.model_copy(
        update={"engine": config.engine.model_copy(update={"device": device, "workers": 1})}
    )


SKIPPED = ("order", "needs", "kind", "gpu", "encoder", "cells", "seeds")


def beside(jobs: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Jobs of a GPU that differ in their seeds alone, several in one."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for job in jobs:
        alone = job["file"] == "vae" or not job["gpu"]
        key = (job["kind"], job["cell"]) if alone else job["kind"]
        groups.setdefault(key, []).append(job)
    found = []
    for some in groups.values():
        for i in range(0, len(some), most):
            part = some[i : i + most]
            together = {name + "s": [job[name] for job in part] for name in ("cell", "seed")}
            found.append({**part[0], **together})
    return sorted(found, key=lambda job: job["order"])


class Queue:
    """Jobs in the order of their seeds; one that needs a file that is not there yet waits."""

    def __init__(self, jobs: list[dict[str, Any]], data: Path, until: float) -> None:
        """``until`` is the time by which the last job is to be finished."""
        self.jobs, self.data, self.until = jobs, data, until
        self.lock, self.took = threading.Lock(), dict[str, float]()

    def take(self, gpu: bool) -> dict[str, Any] | None:
        """The next job for a GPU, or for a core."""
        with self.lock:
            for i, job in enumerate(self.jobs):
                if job["gpu"] != gpu or not all((self.data / n).is_file() for n in job["needs"]):
                    continue
                if time.time() + self.took.get(job["kind"], 0.0) < self.until:
                    return self.jobs.pop(i)
        return None

    def done(self, job: dict[str, Any], seconds: float) -> None:
        """What a job of its kind takes is what the next will take."""
        with self.lock:
            self.took[job["kind"]] = max(self.took.get(job["kind"], 0.0), 1.05 * seconds)


NEEDS = {"cifar10": ["cifar10_train.npz", "cifar10_test.npz"]}
NEEDS |= {n: [f"{n}.npz"] for n in ("mnist", "fashion_mnist")}


def jobs_of(files: list[str], seeds: int, later: str, gpu: str = "") -> list[dict[str, Any]]:
    """All cells: group by group, seed by seed, within a seed in the order of the files."""
    found, group = list[dict[str, Any]](), 0
    for place, path in enumerate(files):
        group += path == "then"
        if path.startswith("vae:"):
            some = vaes(path, seeds)
        else:
            some = [] if path == "then" else cells(path)
        for number, job in enumerate(some):
            behind = bool(later) and re.search(later, f"{path} {job['cell']}") is not None
            job["gpu"] |= bool(gpu) and re.search(gpu, f"{path} {job['cell']}") is not None
            job["order"] = (behind, group, job.pop("turn"), place, number)
            found.append(job)
    return sorted(found, key=lambda job: job["order"])


def cells(path: str) -> list[dict[str, Any]]:
    """The jobs of a comparison; many seeds are taken in five turns."""
    from unalike.compare.spec import load

    some = load(path).cells
    order = {seed: i for i, seed in enumerate(dict.fromkeys(c.seed for c in some))}
    return [
        {
            "file": path,
            "cell": c.id,
            "label": c.label,
            "condition": c.condition,
            "seed": c.seed,
            "gpu": c.config.engine.device != "cpu",
            "needs": NEEDS.get(c.config.data.name, []),
            "kind": f"{path} {c.condition} {c.label}",
            "turn": 5 * order[c.seed] // len(order),
        }
        for c in some
    ]


def vaes(word: str, seeds: int) -> list[dict[str, Any]]:
    """The jobs of one weight."""
    _, data, partition, init, alpha = word.split(":")
    found = []
    for seed in range(seeds):
        encoder = Path(tempfile.gettempdir()) / "encoders" / f"{data}-{partition}-{init}-{seed}"
        about = {"data": data, "partition": partition, "init": init, "alpha": float(alpha)}
        needs = [f"{data}.npz", *([str(encoder)] if float(alpha) else [])]
        about |= {"file": "vae", "cell": f"{word}:{seed}", "seed": seed, "gpu": True}
        about |= {"encoder": str(encoder), "needs": needs, "kind": word}
        about["turn"] = seed if float(alpha) else 0  # others wait for its encoder
        found.append(about)
    return found


def serve(queue: Queue, device: str, folder: str, write: Any) -> None:
    """Feeds one process."""
    command = [sys.executable, __file__, "--worker", device, "--examples", folder]
    process = None
    while True:
        job = queue.take(device != "cpu")
        if job is None:
            if not any(j["gpu"] == (device != "cpu") for j in queue.jobs):
                break
            if time.time() > queue.until - 5:
                break
            time.sleep(1)
            continue
        if process is None or process.poll() is not None:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        ended = [{"failed": "the process ended"}] * len(job["cells"])
        told = json.loads(answer) if answer else {"found": ended, "seconds": 0.0}
        queue.done(job, told["seconds"])
        about = {k: v for k, v in job.items() if k not in SKIPPED}
        each = zip(job["cells"], job["seeds"], told["found"], strict=True)
        for cell, seed, found in each:
            how = {"on": device, "beside": len(job["cells"]), "seconds": told["seconds"]}
            write({**about, "cell": cell, "seed": seed, **how, **found})
        if any("failed" in one for one in told["found"]):
            process.stdin.close()
            process.wait()
            process = None
    if process is not None:
        process.stdin.close()
        process.wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("files", nargs="*", help="comparisons, vae:..., then")
    options.add_argument("--gpu", type=int, default=0, help="processes that share the GPU")
    options.add_argument("--cpu", type=int, default=1, help="processes with a core each")
    options.add_argument("--seeds", type=int, default=5, help="of the VAE")
    options.add_argument("--on-gpu", default="", help="cells that match run there as well")
    options.add_argument("--beside", type=int, default=1, help="seeds in one job of the GPU")
    options.add_argument("--later", default="", help="cells that match come last")
    options.add_argument("--known", default="", help="short lines of runs that are there already")
    options.add_argument("--seconds", type=float, default=1e9, help="no job ends after them")
    options.add_argument("--out", default="evidence.jsonl", help="JSON lines, one a run; appended")
    options.add_argument("--short", help="only write there what tables need of the lines of --out")
    options.add_argument("--examples", default="", help="folder of stored datasets")
    options.add_argument("--store", nargs="*", help="only store these datasets there")
    options.add_argument("--worker", default="", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.worker:
        return work(chosen.worker, chosen.examples)
    if chosen.short:
        return shorten(Path(chosen.out), Path(chosen.short))
    if chosen.store is not None:
        return store(chosen.files, chosen.store, Path(chosen.examples))
    data = Path(os.environ.get("UNALIKE_DATA", "."))
    jobs, out = jobs_of(chosen.files, chosen.seeds, chosen.later, chosen.on_gpu), Path(chosen.out)
    if out.is_file():
        lines = [json.loads(text) for text in out.read_text().splitlines()]
        known = {(x["file"], x["cell"]) for x in lines if "failed" not in x}
        jobs = [j for j in jobs if (j["file"], j["cell"]) not in known]
    if chosen.known:
        names = {same(json.loads(text)) for text in Path(chosen.known).read_text().splitlines()}
        jobs = [j for j in jobs if same({**j, "file": Path(j["file"]).stem}) not in names]
    jobs = beside(jobs, chosen.beside)
    queue, lock = Queue(jobs, data, time.time() + chosen.seconds), threading.Lock()
    total, begun = len(jobs), time.time()
    print(f"{total} jobs", flush=True)

    def write(found: dict[str, Any]) -> None:
        with lock, out.open("a") as file:
            file.write(json.dumps(found) + "\n")
            file.flush()
            what = found.get("failed", "")
            print(
                f"{time.time() - begun:.0f} s, {len(queue.jobs)} left: {Path(found['file']).stem} "
                f"{found['cell']} on {found['on']} in {found['seconds']} s {what}",
                flush=True,
            )

    devices = ["cuda"] * chosen.gpu + ["cpu"] * chosen.cpu
    threads = [
        threading.Thread(target=serve, args=(queue, d, chosen.examples, write)) for d in devices
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{len(queue.jobs)} of {total} jobs were not begun", flush=True)


def store(files: list[str], names: list[str], folder: Path) -> None:
    """Datasets of the files, for a machine that cannot read them itself."""
    from unalike.compare.spec import load

    folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        for cell in load(path).cells:
            data = json.dumps(cell.config.resolved()["data"], sort_keys=True)
            if cell.config.data.name in names and not (folder / place(data)).exists():
                (folder / place(data)).write_bytes(pickle.dumps(examples(data, "")))


if __name__ == "__main__":
    main()
