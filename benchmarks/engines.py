"""Seconds per round of both engines, side by side in one run.

    python benchmarks/engines.py [--device cuda] [--rounds 5]

Random data, so nothing is downloaded: speed does not depend on the pixels. Each line is the median
over rounds after a warm-up round; evaluation is not counted. On a GPU "vectorized" is timed
twice: every step launched by Python, and one step recorded as a CUDA graph and replayed.
"""

import argparse
import json
import statistics
import time
from typing import NamedTuple

import numpy as np
import torch

from unalike import rng
from unalike.algorithms.method import Draft
from unalike.engine.guard import Guard
from unalike.engine.loop import Loop
from unalike.engine.simulate import Engine, Simulation
from unalike.federation.data import Examples, Rows
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation
from unalike.run.device import prepare
from unalike.tasks import TASKS

# name: (model, settings, shape, classes, clients, examples each, per round, batch size)
WORK = {
    "dense, 10 clients a round": ("mcmahan_2nn", {}, (1, 28, 28), 10, 100, 600, 10, 10),
    "dense, 100 clients a round": ("mcmahan_2nn", {}, (1, 28, 28), 10, 1000, 60, 100, 10),
    "convolutions, 10 clients a round": ("mcmahan_cnn", {}, (1, 28, 28), 10, 100, 200, 10, 50),
    "LSTM, 10 clients a round": ("stacked_lstm", {"hidden": 128}, (80,), 80, 100, 40, 10, 10),
}


class Variant(NamedTuple):
    """A way to compute clients."""

    engine: Engine
    graphs: bool = False


VARIANTS = {
    "sequential": Variant("sequential"),
    "vectorized": Variant("vectorized"),
    "graphs": Variant("vectorized", graphs=True),  # what "vectorized" means on a GPU by default
}


def seconds(work: str, how: Variant, device: torch.device, workers: int, rounds: int) -> float:
    name, settings, shape, classes, clients, each, cohort, batch = WORK[work]
    generator = torch.Generator().manual_seed(0)
    n = clients * each
    if name == "stacked_lstm":
        x = torch.randint(0, classes, (n, *shape), generator=generator)
    else:
        x = torch.rand(n, *shape, generator=generator)
    y = torch.randint(0, classes, (n,), generator=generator)
    kind = "characters" if name == "stacked_lstm" else "multiclass"
    task = TASKS[kind](Network(MODELS[name](**settings).build(shape, classes)))
    recipe = Draft(
        task, clients, classes, shape, rounds, Sgd(0.05), participation=Participation(number=cohort)
    ).recipe()
    simulation = Simulation(
        recipe,
        Examples(x, y, classes, kind),
        Rows(torch.arange(n), np.arange(clients + 1) * each),
        task.init(rng.key(0)),
        clients,
        batch_size=batch,
        engine=how.engine,
        device=device,
        workers=workers,
        graphs=how.graphs,
    )
    loop = Loop(recipe, simulation, rounds + 1, 0, Guard())
    state, _ = loop.advance(loop.begin(simulation.w), 0)
    times = []
    for t in range(1, rounds + 1):
        begun = time.perf_counter()
        state, _ = loop.advance(state, t)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--device", default="cpu")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--workers", type=int, default=torch.get_num_threads())
    chosen = options.parse_args()
    device = torch.device(chosen.device)
    prepare(device, tf32=False)
    names = list(VARIANTS) if device.type == "cuda" else ["sequential", "vectorized"]
    for work in WORK:
        took = {n: seconds(work, VARIANTS[n], device, chosen.workers, chosen.rounds) for n in names}
        line = {
            "work": work,
            "device": chosen.device,
            **{f"{n}_s": round(s, 4) for n, s in took.items()},
            **{f"sequential_over_{n}": round(took["sequential"] / took[n], 2) for n in names[1:]},
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
