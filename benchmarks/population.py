"""What registered clients cost that do not take part: seconds a round, memory beyond the data.

    python benchmarks/population.py [--method superfed_mm] [--states disk] [--clients 1000 100000]

Random data, two examples a client, the 2NN of 199,210 parameters, 100 clients a round, others in
each: with many registered most of a cohort is new in every round, as in practice.
"""

import argparse
import json
import resource
import statistics
import time

import numpy as np
import torch

from unalike import rng
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import compose
from unalike.algorithms.table import METHODS
from unalike.engine.client.states import InMemory, OnDisk
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.engine.simulation.simulate import Simulation
from unalike.federation.data import Examples, Rows
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation
from unalike.tasks import MultiClass

COHORT, EACH, SHAPE, CLASSES = 100, 2, (1, 28, 28), 10


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(method: str, states: str, clients: int, rounds: int) -> dict[str, float | int | str]:
    n = clients * EACH
    x = torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(0))
    y = torch.randint(0, CLASSES, (n,), generator=torch.Generator().manual_seed(1))
    task = MultiClass(Network(MODELS["mcmahan_2nn"]().build(SHAPE, CLASSES)))
    draft = Draft(
        task,
        clients,
        CLASSES,
        SHAPE,
        rounds,
        Sgd(0.05),
        batch_size=EACH,
        participation=Participation(number=COHORT),
    )
    recipe = compose(draft, [(method, METHODS[method]())], "star").recipe()
    before = megabytes()
    simulation = Simulation(
        recipe,
        Examples(x, y, CLASSES),
        Rows(torch.arange(n), np.arange(clients + 1) * EACH),
        task.init(rng.key(0)),
        clients,
        states=OnDisk() if states == "disk" else InMemory(clients),
    )
    loop = Loop(recipe, simulation, range(rounds), 0, Guard())
    state, times = loop.begin(simulation.w), []
    for t in range(rounds):
        begun = time.perf_counter()
        state, _ = loop.advance(state, t)
        times.append(time.perf_counter() - begun)
    return {
        "method": method,
        "states": states,
        "clients": clients,
        "round_s": round(statistics.median(times[1:]), 3),
        "data_mb": round(x.numel() * 4 / 2**20),
        "beyond_data_mb": round(megabytes() - before),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    methods = ["fedavg", "scaffold", "superfed_mm"]
    options.add_argument("--method", default="scaffold", choices=methods)
    options.add_argument("--states", default="disk", choices=["memory", "disk"])
    options.add_argument("--clients", type=int, nargs="+", default=[1000, 100_000])
    options.add_argument("--rounds", type=int, default=8)
    chosen = options.parse_args()
    for clients in chosen.clients:
        found = measured(chosen.method, chosen.states, clients, chosen.rounds)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
