"""The workloads that all peers train, and how a peer takes its turns; needs NumPy alone.

A peer is a program in an environment of its own. It builds what it needs, says so, and then plays
one round for each line it reads, so that all peers take turns and whatever else the machine does
meets all of them.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LR = 0.05


class Work(NamedTuple):
    """A two-layer perceptron of 200 units each on random images of 28 x 28."""

    clients: int
    each: int  # examples of a client
    cohort: int
    batch: int = 10
    classes: int = 10


WORK = {"W1": Work(100, 600, 10), "W3": Work(1000, 60, 100)}


def chosen() -> tuple[Work, np.ndarray]:
    """The workload that the command line names, and where each client's examples begin and end."""
    options = argparse.ArgumentParser()
    options.add_argument("work", choices=WORK)
    options.add_argument("sizes", choices=["equal", "dirichlet"])
    asked = options.parse_args()
    work = WORK[asked.work]
    if asked.sizes == "equal":
        return work, np.arange(work.clients + 1) * work.each
    shares = np.random.default_rng(0).dirichlet([0.3] * work.clients, size=10).mean(0)
    counts = 1 + np.floor(shares * (work.clients * work.each - work.clients))
    return work, np.concatenate([[0], np.cumsum(counts)]).astype(int)


def data(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """All examples, flat, and their classes."""
    draw, n = np.random.default_rng(0), work.clients * work.each
    x = draw.random((n, 784), dtype=np.float32)
    return x, draw.integers(0, work.classes, n)


def cohort(work: Work, t: int) -> list[int]:
    """The clients of a round."""
    return np.random.default_rng(t).permutation(work.clients)[: work.cohort].tolist()


def take_turns(one: Callable[[int], None]) -> None:
    """Play a round whenever asked; the first is a warm-up like any other."""
    print(json.dumps({"ready": True}), flush=True)
    for t, _ in enumerate(sys.stdin):
        begun = time.perf_counter()
        one(t)
        seconds = time.perf_counter() - begun
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "mb": round(memory)}), flush=True)
