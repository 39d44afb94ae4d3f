"""The jobs of benchmarks/evidence.py, in the order in which they are to be done."""

import re
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from evidence_state import rounds_in

NEEDS = {"cifar10": ["cifar10_train.npz", "cifar10_test.npz"]}
NEEDS |= {n: [f"{n}.npz"] for n in ("mnist", "fashion_mnist")}
APART = 0.1  # of all rounds: runs that are further apart than that do not wait for each other
# What a line about a run does not hold of its job.
INNER = ("order", "needs", "kind", "gpu", "encoder", "rounds", "done", "state")
SEVERAL = ("cell", "seed", "state", "encoder")  # a job has these of each of its runs


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
    from unalike.compare.specification.spec import load

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
            "rounds": c.config.rounds,
            "encoder": "",
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
        about |= {"encoder": str(encoder), "needs": needs, "kind": word, "rounds": 0}
        about["turn"] = seed if float(alpha) else 0  # others wait for its encoder
        found.append(about)
    return found


def resumed(jobs: list[dict[str, Any]], state: str, device: str) -> list[dict[str, Any]]:
    """Where each job keeps its checkpoint, and how far it is; those that are begun come first.

    Jobs of a GPU are played on ``device``. Another device is another folder, since a run that
    changed it on the way would be neither the one nor the other.
    """
    for job in jobs:
        kept = bool(state) and job["file"] != "vae"
        on = device if job["gpu"] else "cpu"
        place = Path(state) / Path(job["file"]).stem / on / job["cell"]
        job["state"] = str(place) if kept else ""
        job["done"] = rounds_in(place) if kept else 0
        job["order"] = (not job["done"], *job["order"])
    return sorted(jobs, key=lambda job: job["order"])


def beside(jobs: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Jobs of a GPU that differ in their seeds alone and are about as far, several in one."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for job in jobs:
        key = job["kind"] if job["gpu"] else (job["kind"], job["cell"])
        groups.setdefault(key, []).append(job)
    found = []
    for some in groups.values():
        parts = list[list[dict[str, Any]]]()
        for job in sorted(some, key=lambda job: -job["done"]):
            behind = parts[-1][0]["done"] - job["done"] if parts else 0
            if not parts or len(parts[-1]) == most or behind > APART * job["rounds"]:
                parts.append([])
            parts[-1].append(job)
        for part in parts:
            part.sort(key=lambda job: job["order"])
            together = {f"{name}s": [job[name] for job in part] for name in SEVERAL}
            needs = sorted({name for job in part for name in job["needs"]})
            done = max(job["done"] for job in part)
            found.append({**part[0], **together, "needs": needs, "done": done})
    return sorted(found, key=lambda job: job["order"])


def costs(lines: list[dict[str, Any]]) -> dict[tuple[str, bool], float]:
    """Seconds that runs of a kind took before, on a GPU or on a core."""
    found = dict[tuple[str, bool], float]()
    for x in lines:
        if "failed" not in x:
            kind = f"{x['file']} {x.get('condition')} {x.get('label')}"
            if x["file"] == "vae":
                kind = x["cell"].rpartition(":")[0]
            key = kind, x["on"] != "cpu"
            found[key] = max(found.get(key, 0.0), x["seconds"])
    return found


def about(job: dict[str, Any]) -> str:
    """What a person calls a job."""
    seeds = ", ".join(map(str, job["seeds"]))
    names = [job["kind"]] if job["file"] == "vae" else [job["condition"], job["label"]]
    what = ", ".join([Path(job["file"]).stem, *names])
    return f"{what}, seed{'s' if len(job['seeds']) > 1 else ''} {seeds}"


class Queue:
    """Jobs in their order; one that needs a file that is not there yet waits."""

    def __init__(
        self,
        jobs: list[dict[str, Any]],
        data: Path,
        until: float,
        took: dict[tuple[str, bool], float],
    ) -> None:
        """``until`` is when time is up; what has no checkpoint is to be finished by then."""
        self.jobs, self.data, self.until = jobs, data, until
        self.lock, self.took = threading.Lock(), dict(took)

    def take(self, gpu: bool) -> dict[str, Any] | None:
        """The next job for a GPU, or for a core."""
        with self.lock:
            for i, job in enumerate(self.jobs):
                if job["gpu"] != gpu or not all((self.data / n).is_file() for n in job["needs"]):
                    continue
                if time.time() + (0.0 if job["state"] else self.cost(job)) < self.until:
                    return self.jobs.pop(i)
        return None

    def put_back(self, job: dict[str, Any], runs: list[int]) -> None:
        """Some of its runs are to be played again, before anything else."""
        with self.lock:
            first = {name: job[f"{name}s"][runs[0]] for name in SEVERAL}
            again = {f"{name}s": [job[f"{name}s"][i] for i in runs] for name in SEVERAL}
            self.jobs.insert(0, {**job, **first, **again})

    def waits(self, gpu: bool) -> bool:
        """Whether there is something left to wait for."""
        with self.lock:
            return any(job["gpu"] == gpu for job in self.jobs) and time.time() < self.until - 5

    def cost(self, job: dict[str, Any]) -> float:
        """Seconds that jobs of this kind took, at most; 0 if none has ended."""
        return self.took.get((job["kind"], job["gpu"]), 0.0)

    def done(self, job: dict[str, Any], seconds: float) -> None:
        """What a job of its kind takes is what the next will take."""
        with self.lock:
            key = job["kind"], job["gpu"]
            self.took[key] = max(self.took.get(key, 0.0), 1.05 * seconds)
