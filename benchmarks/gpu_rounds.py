"""Milliseconds of a round on one GPU, through the product as it is, method by method.

    python benchmarks/gpu_rounds.py [--only NAME ...] [--methods NAME ...] [--profile FOLDER]

Medians over rounds after the recording ones, evaluation not counted; ``first_s`` is how long the
first two took, which compile and record. Random data: speed does not depend on the pixels.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from unalike import rng
from unalike.algorithms.draft import Draft
from unalike.algorithms.table import METHODS
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.engine.simulation.simulate import Simulation
from unalike.federation.data import Examples, Rows
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.participation.schedule import Participation
from unalike.run.experiment.device import prepare
from unalike.tasks import TASKS


def pfl_cnn() -> nn.Module:
    """The network of pfl-research's image classification benchmark."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(12544, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


class Work(NamedTuple):
    """What is trained, by how many."""

    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    clients: int
    each: int  # examples of a client, or their mean
    cohort: int
    batch: int
    skewed: bool = False  # sizes from 0.2 to 1.8 times the mean


IMAGE = (1, 28, 28)
WORK = {
    "twonn 100x60x10": Work(
        lambda: MODELS["mcmahan_2nn"]().build(IMAGE, 10), IMAGE, 100, 600, 100, 10
    ),
    "twonn 100x60x10 skewed": Work(
        lambda: MODELS["mcmahan_2nn"]().build(IMAGE, 10), IMAGE, 200, 600, 100, 10, True
    ),
    "cnn 100x12x50": Work(
        lambda: MODELS["mcmahan_cnn"]().build(IMAGE, 10), IMAGE, 100, 600, 100, 50
    ),
    "pfl cifar 50x5x10": Work(pfl_cnn, (3, 32, 32), 1000, 50, 50, 10),
    "cifar cnn 100x20x16": Work(
        lambda: MODELS["cifar_cnn"]().build((3, 32, 32), 10), (3, 32, 32), 100, 320, 100, 16
    ),
}


def sizes(work: Work) -> np.ndarray:
    """Examples of every client."""
    share = np.linspace(0.2, 1.8, work.clients) if work.skewed else np.ones(work.clients)
    return np.round(share * work.each).astype(np.int64)


class Rounds:
    """The product at work, without its evaluation, records and checkpoints."""

    def __init__(
        self,
        work: Work,
        method: str = "fedavg",
        *,
        precision: str,
        kernels: bool,
        compiled: bool = False,
        one_by_one: bool = False,
        lr: float = 0.05,
        examples: tuple[torch.Tensor, torch.Tensor] | None = None,
        device: torch.device = torch.device("cuda"),
    ) -> None:
        """With random examples, if none are given."""
        prepare(device, tf32=precision != "ieee")
        each, generator = sizes(work), torch.Generator().manual_seed(0)
        n = int(each.sum())
        x = torch.rand(n, *work.shape, generator=generator)
        y = torch.randint(0, 10, (n,), generator=generator)
        x, y = examples or (x, y)
        kernels = kernels and device.type == "cuda"
        network = Network(work.model(), kernels=kernels, bf16=precision == "bf16")
        self.task = TASKS["multiclass"](network)
        draft = Draft(
            self.task,
            work.clients,
            10,
            work.shape,
            rounds=10**6,
            opt=Sgd(lr),
            batch_size=work.batch,
            participation=Participation(number=work.cohort),
        )
        settings = {"start": 0.0} if method == "superfed_mm" else {}
        recipe = METHODS[method](**settings).change(draft).recipe()
        simulation = Simulation(
            recipe,
            Examples(x, y, 10, "multiclass"),
            Rows(torch.arange(n), np.concatenate([[0], each.cumsum()])),
            self.task.init(rng.key(0)),
            work.clients,
            device=device,
            engine="sequential" if one_by_one or device.type == "cpu" else "vectorized",
            traced=device.type == "cpu",
            compiled=work.cohort if compiled else 0,
        )
        self.loop = Loop(recipe, simulation, range(10**6), 0, Guard())
        self.state = self.loop.begin(simulation.w)

    def __call__(self, t: int) -> None:
        """Play the round of that number."""
        self.state, _ = self.loop.advance(self.state, t)
        if torch.cuda.is_available():
            torch.cuda.synchronize()


def profiled(one: Callable[[int], None], rounds: range, path: Path) -> None:
    """Kernels and host functions by their time, a round."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CUDA, kinds.CPU]) as seen:
        for t in rounds:
            one(t)
    table = seen.key_averages()
    lines = []
    for name, key in (("device", "self_device_time_total"), ("host", "self_cpu_time_total")):
        found = sorted(table, key=lambda e: -getattr(e, key))[:30]
        total = sum(getattr(e, key) for e in table) / len(rounds) / 1e3
        lines.append(f"{name}: {total:.2f} ms a round")
        for e in found:
            each, calls = getattr(e, key) / len(rounds) / 1e3, e.count / len(rounds)
            lines.append(f"  {each:8.3f} ms {calls:7.1f} x {e.key[:90]}")
    path.write_text("\n".join(lines) + "\n")


def measured(
    name: str, method: str, rounds: int, profile: Path | None, **how: Any
) -> dict[str, Any]:
    """One line of the results."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    work = WORK[name]
    if method != "fedavg":  # what clients keep is there from the first round on
        work = work._replace(clients=work.cohort)
    one, begun = Rounds(work, method, **how), time.perf_counter()
    if how.get("one_by_one"):  # of thousands of steps the first few do not matter
        first, warm, rounds = 0.0, 0, 1
    else:
        for t in range(2):
            one(t)
        first, warm = time.perf_counter() - begun, 6 if work.skewed else 3
    for t in range(2, warm):
        one(t)
    times = []
    for t in range(warm, warm + rounds):
        begun = time.perf_counter()
        one(t)
        times.append(time.perf_counter() - begun)
    if profile is not None:
        path = profile / f"{name} {method} {' '.join(map(str, how.values()))}".replace(" ", "_")
        profiled(one, range(warm + rounds, warm + rounds + 3), path)
    return {
        "work": name,
        "method": method,
        **how,
        "ms": round(statistics.median(times) * 1e3, 2),
        "first_s": round(first, 2),
        "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", nargs="+", choices=WORK, default=list(WORK), metavar="WORK")
    options.add_argument(
        "--methods", nargs="+", default=["fedavg", "scaffold", "fedprox", "superfed_mm"]
    )
    options.add_argument("--precisions", nargs="+", default=["tf32", "bf16"])
    options.add_argument("--cudnn", action="store_true", help="also without our kernels")
    options.add_argument("--compiled", action="store_true", help="also with compiled steps")
    options.add_argument(
        "--one-by-one", action="store_true", help="also one client after the other, one round"
    )
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--profile", type=Path)
    chosen = options.parse_args()
    for name in chosen.only:
        for method in chosen.methods:
            for precision in chosen.precisions:
                for kernels in (True, False) if chosen.cudnn else (True,):
                    for compiled in (False, True) if chosen.compiled else (False,):
                        how = {"precision": precision, "kernels": kernels, "compiled": compiled}
                        line = measured(name, method, chosen.rounds, chosen.profile, **how)
                        print(json.dumps(line), flush=True)
                if chosen.one_by_one:
                    how = {"precision": precision, "kernels": False, "one_by_one": True}
                    line = measured(name, method, 1, None, **how)
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
