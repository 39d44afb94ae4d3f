"""benchmarks/sampled_regret.py: AAggFF-D's regret where only samples of the clients answer."""

import importlib
import math
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from unalike.algorithms import aaggff_d
from unalike.parts.mixing.regret import bound_d, regret

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
study = importlib.import_module("sampled_regret")


def played(K: int, m: int, name: str, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Decisions and responses of all rounds."""
    with mock.patch.object(aaggff_d, "respond", lambda losses, *_: losses):
        steps = list(study.play(K, m, name, 0, rounds))
    p, r = (torch.stack(column).numpy() for column in zip(*steps, strict=True))
    return p, r


@pytest.mark.parametrize("name", study.adversaries(6, np.random.default_rng(0)))
def test_responses_are_in_their_range_and_decisions_are_distributions(name):
    p, r = played(6, 3, name, 40)
    assert p.sum(1) == pytest.approx(np.ones(40))
    assert r.min() >= 0
    assert r.max() <= 3 / 6


def test_with_one_answer_in_a_round_regret_is_that_of_uniform_weights():
    """T (log(1 + C) - log(1 + C / K)) with C = 1 / K: linear, whatever constant the bound has."""
    K, T = 5, 300
    p, r = played(K, 1, "one", T)
    want = T * (math.log1p(1 / K) - math.log1p(1 / K**2))
    assert regret(r, p) == pytest.approx(want)
    assert want > bound_d(T, K, 1 / K)


def test_two_kinds_come_in_their_shares():
    _, r = played(4, 2, "two kinds", 1000)
    assert (r[:, 0] > 0).mean() == 0.44
    assert ((r > 0).sum(1) == np.where(r[:, 0] > 0, 1, 3)).all()


def test_the_linearised_gradient_misses_the_bound_that_the_exact_one_keeps():
    """All of ten clients answer, in rounds of two kinds; theorem 3.2 is proven for the latter."""
    K, T = 10, 10_000
    ours, r = played(K, K, "two kinds", T)
    total, p, exact = np.zeros(K), np.full(K, 1 / K), []
    for t, row in enumerate(r, 1):
        exact.append(p)
        total -= row / (1 + p @ row)
        p = np.exp(-math.sqrt(math.log(K) / (t + 1)) * (total - total.min()))
        p /= p.sum()
    assert regret(r, ours) > bound_d(T, K)
    assert 0 < regret(r, np.array(exact)) < 0.1 * bound_d(T, K)
