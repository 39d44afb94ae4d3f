"""Milliseconds per decision of the rules that learn weights, on one core.

    python benchmarks/weights.py

AAggFF-S with 1,000 clients, over rounds 451 to 500, in three kinds of losses: noise alone (most
weights stay positive), lasting differences (most become zero), and both. AAggFF-D and AFL with
1,000,000 clients of which 100 and all answer. The time of a whole call is counted, with the
response to the losses and the new state; ``cpu_ms`` is the median of processor time, which other
processes on the machine disturb less. ``residual`` is the worst violation of the conditions of
optimality of the quadratic program.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is loaded

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from unalike import rng
from unalike.algorithms.aaggff_d import AAggFFD
from unalike.algorithms.aaggff_s import AAggFFS, OnlineNewton
from unalike.algorithms.afl import Afl
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Mixing

CLIENTS, ROUNDS, COUNTED = 1000, 500, 50
MANY = 1_000_000


def cohort(ids: torch.Tensor, losses: np.ndarray) -> Cohort:
    stats = {"examples": torch.ones(len(ids)), "loss": torch.from_numpy(losses)}
    return Cohort(0, ids, stats, {}, ids, rng.key(0))


def decide(
    rule: Mixing, clients: int, rounds: int, who: Callable[[], torch.Tensor], losses: Callable
) -> tuple[list[tuple[float, float]], Any]:
    state, taken = rule.init(clients), []
    for _ in range(rounds):
        ids = who()
        seen = cohort(ids, losses(len(ids)))
        begun, busy = time.perf_counter(), time.thread_time()
        state = rule.weights(state, seen).state
        taken.append((time.perf_counter() - begun, time.thread_time() - busy))
    return taken, state


def line(name: str, taken: list[tuple[float, float]], **more: float) -> None:
    wall, cpu = ([1000 * t for t in times] for times in zip(*taken, strict=True))
    numbers = {
        "median_ms": statistics.median(wall),
        "max_ms": max(wall),
        "cpu_ms": statistics.median(cpu),
    }
    rounded = {k: round(v, 2) for k, v in numbers.items()}
    print(json.dumps({"rule": name, **rounded, **more}), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    draw = np.random.default_rng(0)
    base, everybody = draw.gamma(2, 0.5, CLIENTS), torch.arange(CLIENTS)
    kinds = {
        "noise": lambda n: draw.gamma(2, 0.5, n),
        "lasting differences": lambda n: base,
        "both": lambda n: base * np.exp(draw.standard_normal(n) / 2),
    }
    for name, losses in kinds.items():
        taken, state = decide(OnlineNewton(AAggFFS()), CLIENTS, ROUNDS, lambda: everybody, losses)
        slope, on = (state.A @ state.p + state.b).numpy(), state.p.numpy() > 0
        residual = float(slope[on].max() - slope.min())
        line(
            f"aaggff_s, {CLIENTS} clients, {name}",
            taken[-COUNTED:],
            residual=float(f"{residual:.0e}"),
            positive=int(on.sum()),
        )
    all_of_them = torch.arange(MANY)
    for answers in (100, MANY):
        who = lambda n=answers: all_of_them[:: MANY // n]
        for name, rule in {"aaggff_d": AAggFFD(), "afl": Afl()}.items():
            taken, _ = decide(rule, MANY, 12, who, lambda n: draw.gamma(2, 0.5, n))
            line(f"{name}, {MANY:,} clients, {answers:,} answer", taken[2:])


if __name__ == "__main__":
    main()
