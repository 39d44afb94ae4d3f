"""What a round of a deployed run takes with ten sites, a thousand, a million, by the clock.

python benchmarks/deploy_scale.py

No client trains: the clock knows beforehand how long each takes (examples, speed, bandwidth,
latency, who is late). Beside it stands what the centre itself needs at RATE bytes a second of
messages checked and summed, which `benchmarks/deploy_overhead.py` measures, and how many centres
that speed asks for if they are not to be what everybody waits for.
"""

import math
import statistics
from typing import Any, NamedTuple

import torch

from unalike import rng, tree
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.engine.transport import Clients
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import program, task
from unalike.run.experiment.shape import Shape

RATE = 240e6  # bytes a second, down and up, that one coordinator gets through
ROUNDS = 20
HOSPITAL = {"down": 12.5e6, "up": 12.5e6, "speed": 500.0}  # 100 Mbit/s
PHONE = {"down": 1e6, "up": 2.5e5, "speed": 100.0, "latency": 0.1}


class Case(NamedTuple):
    """Who takes part in what."""

    name: str
    clients: int
    each: int  # training examples of a client
    width: int  # of two hidden layers
    clock: dict[str, Any]
    participation: dict[str, Any]


CASES = (
    Case("10 hospitals", 10, 5000, 3480, HOSPITAL, {}),
    Case("1,000 sites, all", 1000, 5000, 3480, HOSPITAL, {}),
    Case("1,000 sites, 100 a round", 1000, 5000, 3480, HOSPITAL, {"number": 100, "extra": 0.3}),
    Case("a million phones, 1,000 a round", 10**6, 50, 1060, PHONE, {"number": 1000}),
    Case("the same, 30 % more invited", 10**6, 50, 1060, PHONE, {"number": 1000, "extra": 0.3}),
)


class Nowhere:
    """A transport that is asked who there is, and nothing else."""

    sums = None

    def __init__(self, clients: Clients) -> None:
        """Of so many clients."""
        self.clients = clients


def measured(case: Case) -> str:
    config = parse(
        {
            "rounds": ROUNDS,
            "model": {"name": "mlp", "hidden": [case.width, case.width]},
            "local": {"epochs": 1, "batch_size": 32, "lr": 0.01},
            "clock": {"kind": "simulated", **case.clock},
            "participation": case.participation,
        }
    )
    shape = Shape(case.clients, 10, "multiclass", (64,), (), "float32")
    made = task(config, shape.blank())
    (stage,), _ = program(config, made, shape)
    clients = Clients(case.clients, torch.full((case.clients,), case.each))
    loop = Loop(stage.recipe, Nowhere(clients), range(ROUNDS), 0, Guard())  # type: ignore[arg-type]
    state = loop.blank(made.init(rng.key(0)))
    downs = loop.downs(state)
    size, seconds, invited = tree.size_bytes(downs), list[float](), 0
    for t in range(ROUNDS):
        plan = loop.timing.plan(t, state.known, downs)
        answering, _, took = loop.timing.in_time(t, plan, downs, state.stack)
        assert took is not None
        seconds.append(took)
        invited = max(invited, len(plan.ids))
    carried = size * (invited + len(answering.ids))
    network = statistics.median(seconds)
    centres = math.ceil(carried / RATE / network)
    return (
        f"| {case.name} | {size / 1e6:.0f} MB | {network:.0f} s | {carried / 1e9:.1f} GB | "
        f"{carried / RATE:.0f} s | {centres} |"
    )


if __name__ == "__main__":
    print("| who | model | clients need | through the centre | one centre needs | centres |")
    print("| --- | --- | --- | --- | --- | --- |")
    for case in CASES:
        print(measured(case), flush=True)
