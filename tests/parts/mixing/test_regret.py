"""Regret against the best fixed weights, and the bounds that both AAggFF rules promise."""

import numpy as np
import pytest
import torch
from federations import cohort
from numpy.typing import NDArray

from unalike.parts.mixing.aaggff_d import AaggffD
from unalike.parts.mixing.aaggff_s import AaggffS
from unalike.parts.mixing.regret import best_fixed, bound_d, bound_s, regret
from unalike.parts.mixing.response import CDFS, respond

Array = NDArray[np.float64]


def loss(responses: Array, p: Array) -> float:
    return float(-np.log1p(responses @ p).sum())


@pytest.mark.parametrize("shape", [(1, 3), (5, 8), (40, 4), (300, 20)])
def test_best_fixed_weights(shape: tuple[int, int]) -> None:
    """Nothing nearby is better, nor is any of many random points or corners."""
    draw = np.random.default_rng(0)
    r = draw.random(shape)
    p = best_fixed(r)
    assert abs(p.sum() - 1) < 1e-12
    assert p.min() >= 0
    others = np.vstack([np.eye(shape[1]), draw.dirichlet(np.ones(shape[1]), 300)])
    near = 0.99 * p + 0.01 * others
    assert min(loss(r, q) for q in np.vstack([others, near])) >= loss(r, p) - 1e-8


def test_best_fixed_weights_inside_the_simplex() -> None:
    """Two clients that take turns: half each, since the loss is concave in the weight."""
    assert best_fixed([[1.0, 0.0], [0.0, 1.0]]) == pytest.approx([0.5, 0.5])


def test_clients_that_respond_alike() -> None:
    assert best_fixed(np.full((50, 4), 0.3)) == pytest.approx([0.25] * 4)


def test_regret_of_the_best_weights_is_zero_and_of_others_positive() -> None:
    r = np.random.default_rng(1).random((60, 5))
    p = best_fixed(r)
    assert regret(r, np.tile(p, (60, 1))) == pytest.approx(0, abs=1e-7)
    assert regret(r, np.full((60, 5), 0.2)) > 1e-3


def test_bounds() -> None:
    assert bound_s(300, 4) == pytest.approx(5.4765, abs=5e-5)
    assert bound_s(300, 4, 0.5, 1.0) == pytest.approx(5.4765 * 4 / 1.5, abs=5e-4)
    assert bound_d(100, 10) == pytest.approx(2 * np.sqrt(100 * np.log(10)))


def play(rule: AaggffS | AaggffD, losses: Array, high: float) -> tuple[Array, Array]:
    """Responses and the decisions that met them."""
    K = losses.shape[1]
    state, responses, decisions = rule.init(K), [], []
    for row in losses:
        responses.append(respond(torch.from_numpy(row), rule.cdf, 0.0, high).numpy())
        decisions.append(state.p.numpy())
        _, state = rule.weights(state, cohort([1.0] * K, loss=row))  # type: ignore[arg-type]
    return np.array(responses), np.array(decisions)


def simulated(seed: int, rounds: int) -> tuple[Array, str]:
    """Losses of two to ten clients: noise, lasting differences, drift, or alternating extremes."""
    draw = np.random.default_rng(seed)
    K = int(draw.integers(2, 11))
    losses = draw.gamma(1, 1, (rounds, K))
    if seed % 4 == 1:
        losses *= draw.gamma(1, 2, K)
    elif seed % 4 == 2:
        losses *= np.exp(np.linspace(0, 1, rounds)[:, None] * draw.standard_normal(K))
    elif seed % 4 == 3:
        losses = 1e-3 + 10.0 * np.eye(K)[draw.integers(0, 2, rounds)]
    return losses, sorted(CDFS)[seed % len(CDFS)]


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_aaggff_s_stays_below_its_bound(first: int) -> None:
    """A hundred simulations."""
    for seed in range(first, first + 25):
        losses, cdf = simulated(seed, 60)
        K = losses.shape[1]
        responses, decisions = play(AaggffS(cdf), losses, 1 / K)  # type: ignore[arg-type]
        assert -1e-6 <= regret(responses, decisions) <= bound_s(60, K)


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_aaggff_d_stays_below_its_bound(first: int) -> None:
    """A hundred simulations in which everybody takes part."""
    for seed in range(first, first + 25):
        losses, cdf = simulated(seed, 60)
        K = losses.shape[1]
        responses, decisions = play(AaggffD(cdf), losses, 1.0)  # type: ignore[arg-type]
        assert -1e-6 <= regret(responses, decisions) <= bound_d(60, K)


def test_learning_beats_fixed_uniform_weights_where_clients_differ() -> None:
    losses = np.tile([4.0, 1.0, 0.5, 0.1], (300, 1))
    responses, decisions = play(AaggffS(), losses, 1 / 4)
    assert regret(responses, decisions) < 0.5 * regret(responses, np.full((300, 4), 0.25))
