"""The workloads that all peers train, and how a peer takes its turns; needs NumPy alone.

A peer is a program in an environment of its own. It builds what it needs, says so, and then plays
one round whenever it is asked to, so that all peers take turns and whatever else the machine does
meets all of them. At the end it hands over its weights, in PyTorch's order and layout.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

LENGTH, EMBEDDING, HIDDEN = 80, 8, 128  # of the LSTM


class Work(NamedTuple):
    """One epoch of SGD at each client of a round."""

    model: str
    clients: int
    each: int  # examples of a client
    cohort: int
    batch: int
    lr: float
    classes: int = 10

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of all weights, in PyTorch's order."""
        if self.model == "dense":  # McMahan's 2NN
            return [(200, 784), (200,), (200, 200), (200,), (self.classes, 200), (self.classes,)]
        if self.model == "cnn":  # McMahan's: padded by 1, pooled by 2 with padding 1, twice
            kernels = [(32, 1, 5, 5), (32,), (64, 32, 5, 5), (64,)]
            return [*kernels, (512, 64 * 7 * 7), (512,), (self.classes, 512), (self.classes,)]
        gates = 4 * HIDDEN  # two layers without biases, as SuPerFed's
        layers = [(gates, EMBEDDING), (gates, HIDDEN), (gates, HIDDEN), (gates, HIDDEN)]
        return [(self.classes, EMBEDDING), *layers, (self.classes, HIDDEN)]


WORK = {
    "W1": Work("dense", 100, 600, 10, 10, 0.05),
    "W2": Work("cnn", 100, 200, 10, 50, 0.05),
    "W3": Work("dense", 1000, 60, 100, 10, 0.05),
    "W4": Work("lstm", 100, 40, 10, 10, 0.5, classes=80),
}


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
    """All examples and their classes, which can be learned.

    Images are (N, 1, 28, 28), noise around one picture per class; sequences (N, 80) are random
    characters, and a few of them are much more frequent as the next one.
    """
    draw, n = np.random.default_rng(0), work.clients * work.each
    if work.model == "lstm":
        often = draw.dirichlet([0.1] * work.classes)
        return draw.integers(0, work.classes, (n, LENGTH)), draw.choice(work.classes, n, p=often)
    pictures = draw.random((work.classes, 1, 28, 28), dtype=np.float32)
    y = draw.integers(0, work.classes, n)
    x = draw.random((n, 1, 28, 28), dtype=np.float32)
    return (0.8 * x + 0.2 * pictures[y]).astype(np.float32), y


def first(work: Work) -> list[np.ndarray]:
    """The weights that everybody starts from."""
    draw = np.random.default_rng(1)

    def drawn(shape: tuple[int, ...]) -> np.ndarray:
        if len(shape) == 1:
            return np.zeros(shape, np.float32)
        return draw.normal(0, np.prod(shape[1:]) ** -0.5, shape).astype(np.float32)

    return [drawn(shape) for shape in work.shapes]


def cohort(work: Work, t: int) -> list[int]:
    """The clients of a round."""
    return np.random.default_rng(t).permutation(work.clients)[: work.cohort].tolist()


def say(**found: object) -> None:
    """To the program that compares."""
    print(json.dumps(found), flush=True)


def turn(weights: Callable[[], Sequence[np.ndarray]]) -> bool:
    """Wait until another round is asked for; False when it is over."""
    while line := sys.stdin.readline():
        word, _, path = line.strip().partition(" ")
        if word == "round":
            return True
        np.savez(path, *weights())
        say(saved=path)
    return False


def take_turns(one: Callable[[int], None], weights: Callable[[], Sequence[np.ndarray]]) -> None:
    """Play a round whenever asked; the first is a warm-up like any other."""
    say(ready=True)
    t = 0
    while turn(weights):
        begun = time.perf_counter()
        one(t)
        say(seconds=time.perf_counter() - begun)
        t += 1
