"""Regret against the best fixed weights, and the bounds that both AAggFF rules promise."""

from typing import Any

import numpy as np
import pytest
import torch
from federations import cohort
from numpy.typing import NDArray

from unalike.algorithms.aaggff_d import AAggFFD
from unalike.algorithms.aaggff_s import AAggFFS, OnlineNewton
from unalike.parts.mixing.regret import best_fixed, bound_d, bound_s, regret
from unalike.parts.mixing.response import CDFS, Cdf, respond

Array = NDArray[np.float64]


def newton(rounds: int = 0, **settings: Any) -> OnlineNewton:
    """AAggFF-S's rule."""
    return OnlineNewton(AAggFFS(**settings), rounds)


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


def play(rule: OnlineNewton | AAggFFD, losses: Array, high: float) -> tuple[Array, Array]:
    """Responses and the decisions that met them."""
    K = losses.shape[1]
    state, responses, decisions = rule.init(K), [], []
    cdf = getattr(rule, "settings", rule).cdf
    for row in losses:
        responses.append(respond(torch.from_numpy(row), cdf, 0.0, high).numpy())
        decisions.append(state.p.numpy())
        _, state, *_ = rule.weights(state, cohort([1.0] * K, loss=row))  # type: ignore[arg-type]
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
        responses, decisions = play(newton(cdf=cdf), losses, 1 / K)
        assert -1e-6 <= regret(responses, decisions) <= bound_s(60, K)


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_aaggff_d_stays_below_its_bound(first: int) -> None:
    """A hundred simulations in which everybody takes part."""
    for seed in range(first, first + 25):
        losses, cdf = simulated(seed, 60)
        K = losses.shape[1]
        responses, decisions = play(AAggFFD(cdf=cdf), losses, 1.0)
        assert -1e-6 <= regret(responses, decisions) <= bound_d(60, K)


GRID = np.array([(i, j, 300 - i - j) for i in range(301) for j in range(301 - i)]) / 300


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cdf", CDFS)
def test_aaggff_s_tells_the_regret_of_every_round(seed: int, cdf: Cdf) -> None:
    """Three clients: the best fixed weights by trying all of a fine grid, round by round."""
    losses = simulated(seed, 12)[0][:, :3] if seed else np.array(LOSSES)
    losses = np.hstack([losses, np.ones((len(losses), 3 - losses.shape[1]))])
    rule = newton(len(losses), cdf=cdf)
    state, paid, fixed = rule.init(3), 0.0, np.zeros(len(GRID))
    for t, row in enumerate(losses, 1):
        r = respond(torch.from_numpy(row), cdf, 0.0, 1 / 3).numpy()
        paid -= np.log1p(state.p.numpy() @ r)
        fixed -= np.log1p(GRID @ r)
        _, state, _, told = rule.weights(state, cohort([1.0] * 3, loss=row.tolist()))
        by_hand = paid - fixed.min()
        assert by_hand - 1e-8 <= told["regret"] <= by_hand + 2e-6 * t  # the grid misses the best
        assert told["regret_bound"] == bound_s(t, 3)


LOSSES = [[0.01, 0.10, 0.02], [0.30, 0.20, 0.10], [0.05, 0.40, 0.15]]


def test_aaggff_s_by_hand() -> None:
    """Decision losses of -0.146552, -0.153860 and -0.155329; client 2 alone would have been best.

    Its responses are 0.301504, 0.166667 and 0.280448.
    """
    rule = newton(3)
    state = rule.init(3)
    for row in LOSSES:
        _, state, _, told = rule.weights(state, cohort([1.0] * 3, loss=row))
    best = np.log1p([0.301504, 0.166667, 0.280448]).sum()
    assert told["regret"] == pytest.approx(best - 0.455741, abs=3e-6)


def test_a_rule_of_unknown_length_keeps_no_responses() -> None:
    rule = newton()
    _, state, _, told = rule.weights(rule.init(3), cohort([1.0] * 3, loss=LOSSES[0]))
    assert told.keys() == {"decision"}
    assert state.past.responses.numel() == 0


def test_aaggff_d_by_hand() -> None:
    """Six clients of which three answer: g and p of two rounds, worked out elsewhere."""
    rule = AAggFFD()
    state = rule.init(6)
    g = [(-0.046830, -0.2, -0.353170, -0.2, -0.2, -0.2)]
    g += [(-0.199602, -0.083783, -0.160974, -0.199602, -0.354049, -0.199602)]
    p = [(1 / 6,) * 6, (0.157188, 0.166573, 0.176519, 0.166573, 0.166573, 0.166573)]
    rounds = [([0, 2, 5], [0.3, 0.9, 0.6]), ([1, 2, 4], [0.5, 0.7, 1.2])]
    for t, (ids, losses) in enumerate(rounds, 1):
        _, state, _, told = rule.weights(state, cohort([1.0] * 3, ids, n=6, loss=losses))
        paid = sum(np.dot(a, b) for a, b in zip(g[:t], p[:t], strict=True))
        assert told["regret"] == pytest.approx(paid - np.sum(g[:t], 0).min(), abs=5e-6)
        assert told["regret_bound"] == pytest.approx(2 * 2.5 * np.sqrt(t * np.log(6)))


@pytest.mark.parametrize("answers", [1, 4, 20])
def test_aaggff_d_stays_below_its_bound_with_cohorts(answers: int) -> None:
    """Twenty clients, lasting differences, the same number in every round."""
    draw, rule = np.random.default_rng(answers), AAggFFD()
    state, lasting = rule.init(20), draw.gamma(1, 2, 20)
    for _ in range(200):
        ids = np.sort(draw.choice(20, answers, replace=False))
        losses = lasting[ids] * draw.gamma(1, 1, answers)
        _, state, _, told = rule.weights(
            state, cohort([1.0] * answers, ids.tolist(), n=20, loss=losses.tolist())
        )
        assert told["regret"] <= told["regret_bound"]
    assert float(state.widest) == answers / 20


def test_learning_beats_fixed_uniform_weights_where_clients_differ() -> None:
    losses = np.tile([4.0, 1.0, 0.5, 0.1], (300, 1))
    responses, decisions = play(newton(), losses, 1 / 4)
    assert regret(responses, decisions) < 0.5 * regret(responses, np.full((300, 4), 0.25))
