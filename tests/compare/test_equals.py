"""FedAvg against itself on real digits: with independent seeds it must not differ."""

import numpy as np
import pytest

from unalike.compare.statistics import ALPHA, paired
from unalike.run.build import experiment
from unalike.run.config import parse

COMPARISONS, SEEDS = 100, 5


def accuracy(seed: int) -> float:
    """Mean local test accuracy of a short run."""
    made = experiment(
        parse(
            {
                "seed": seed,
                "rounds": 3,
                "partition": {"name": "iid", "clients": 5},
                "model": {"name": "logistic"},
                "local": {"lr": 0.2, "batch_size": 64},
                "engine": {"workers": 1},
            }
        )
    )
    state = made.loop.begin(made.w)
    for t in range(made.config.rounds):
        state, _ = made.loop.advance(state, t)
    return made.evaluator(state).spread["local"]["accuracy"]["mean"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fedavg_does_not_differ_from_itself():
    """One hundred comparisons of five seeds, a thousand runs: at least 94 find nothing."""
    n = COMPARISONS * SEEDS
    runs = np.array([accuracy(seed) for seed in range(2 * n)]).reshape(COMPARISONS, 2, SEEDS)
    found = sum(paired(a, b).p < ALPHA for a, b in runs)
    assert COMPARISONS - found >= 94
