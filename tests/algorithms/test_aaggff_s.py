"""AAggFF-S on three clients and three rounds, computed apart by enumeration of active sets."""

from typing import Any

import numpy as np
import pytest
import torch
from federations import cohort, composed, network_task, play, sampled
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr
from weighing import newton_plainly

from unalike import tree
from unalike.algorithms.aaggff_s import AAggFFS, OnlineNewton
from unalike.engine.faults import Faults
from unalike.errors import ConfigError
from unalike.parts.mixing.response import CDFS, Cdf, respond

Array = NDArray[np.float64]
CLOSE = {"abs": 6e-7, "rel": 0}
LOSSES = [[0.01, 0.10, 0.02], [0.30, 0.20, 0.10], [0.05, 0.40, 0.15]]
DECISIONS = {
    "normal": [
        [0.315230, 0.364219, 0.320551],
        [0.328891, 0.364226, 0.306884],
        [0.310247, 0.389123, 0.300630],
    ],
    "weibull": [
        [0.307102, 0.375626, 0.317272],
        [0.328798, 0.379070, 0.292132],
        [0.298631, 0.413436, 0.287933],
    ],
    "frechet": [
        [0.314572, 0.363106, 0.322322],
        [0.327625, 0.365276, 0.307099],
        [0.306764, 0.388561, 0.304676],
    ],
    "gumbel": [
        [0.315707, 0.363781, 0.320512],
        [0.328813, 0.363743, 0.307444],
        [0.310955, 0.387931, 0.301114],
    ],
    "exponential": [
        [0.312940, 0.362454, 0.324606],
        [0.325149, 0.364631, 0.310220],
        [0.303002, 0.387473, 0.309525],
    ],
    "logistic": [
        [0.320888, 0.354514, 0.324598],
        [0.329631, 0.354516, 0.315853],
        [0.317129, 0.371193, 0.311679],
    ],
}
WRONG = {
    "no cross term in the quadratic": [
        [0.324029, 0.349208, 0.326764],
        [0.331003, 0.349210, 0.319788],
        [0.321438, 0.361986, 0.316577],
    ],
    "and a first decision of ones, and erfc for erf": [
        [0.338514, 0.324495, 0.336991],
        [0.332960, 0.324495, 0.342545],
        [0.340534, 0.314375, 0.345091],
    ],
}


def newton(**settings: Any) -> OnlineNewton:
    """The rule without a memory of past rounds."""
    return OnlineNewton(AAggFFS(**settings))


def decide(
    losses: list[list[float]], rule: OnlineNewton | None = None, **sizes: list[float]
) -> Array:
    """The decision after every round."""
    rule = rule or newton()
    state, out = rule.init(len(losses[0])), []
    for loss in losses:
        c = cohort(sizes.get("examples", [1.0] * len(loss)), loss=loss)
        p, state, *_ = rule.weights(state, c)
        assert torch.allclose(p, state.p)
        out.append(p.numpy())
    return np.array(out)


@pytest.mark.parametrize("cdf", sorted(CDFS))
def test_decisions(cdf: Cdf) -> None:
    assert decide(LOSSES, newton(cdf=cdf)) == pytest.approx(np.array(DECISIONS[cdf]), **CLOSE)


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_known_mistakes_give_other_numbers(wrong: list[list[float]]) -> None:
    assert (np.abs(decide(LOSSES) - np.array(wrong)).max(1) > 1e-3).all()


def test_gradients() -> None:
    """Each round adds beta g g' to the quadratic and (1 - beta <g, p>) g to the linear part."""
    rule = newton()
    state = rule.init(3)
    for loss, response, gradient, paid in zip(
        LOSSES,
        [
            [0.073626, 0.301504, 0.098376],
            [0.230487, 0.166667, 0.102846],
            [0.075542, 0.280448, 0.133765],
        ],
        [
            [-0.063589, -0.260403, -0.084966],
            [-0.197618, -0.142899, -0.088179],
            [-0.064674, -0.240101, -0.114520],
        ],
        [-0.146552, -0.153860, -0.155329],
        strict=True,
    ):
        r = respond(torch.tensor(loss, dtype=torch.float64), "normal", 0.0, 1 / 3)
        assert r.tolist() == pytest.approx(response, **CLOSE)
        assert -float(torch.log1p(state.p @ r)) == pytest.approx(paid, **CLOSE)
        g = torch.tensor(gradient, dtype=torch.float64)
        before = state
        _, state, *_ = rule.weights(state, cohort([1] * 3, loss=loss))
        assert torch.allclose(state.A - before.A, 0.75 * torch.outer(g, g), atol=1e-6)
        assert torch.allclose(state.b - before.b, g * (1 - 0.75 * (g @ before.p)), atol=1e-6)


def test_range_of_responses() -> None:
    """[C1, C2] sets L = C2 / (1 + C1), hence alpha = 4 K L and beta = 1 / 4L."""
    rule = newton(low=0.25, high=0.75)
    state = rule.init(4)
    assert torch.equal(state.A, 4 * 4 * 0.6 * torch.eye(4, dtype=torch.float64))
    loss = [0.5, 1.0, 1.5, 2.0]
    _, after, *_ = rule.weights(state, cohort([1] * 4, loss=loss))
    r = 0.25 + 0.5 * ndtr(np.array(loss) / 1.25 - 1)
    g = -r / (1 + r.mean())
    assert np.allclose(after.A - state.A, np.outer(g, g) / 2.4)


def test_many_rounds_into_a_corner() -> None:
    """Lasting differences make constraints active; the plain program agrees all the way."""
    draw = np.random.default_rng(0)
    losses = np.array([3.0, 1.0, 1.0, 0.2, 0.1]) * draw.gamma(4, 0.25, (120, 5))
    p = decide(losses.tolist())
    assert (p[3] > 0).all()
    assert 0 < (p[-1] == 0).sum() < 5
    assert p[-1] == pytest.approx(newton_plainly(losses), abs=1e-9)


def test_hundreds_of_rounds_reach_a_vertex_and_can_leave_it() -> None:
    far = [[9.0, 1.0, 1.0, 0.5]] * 400
    back = [[0.1, 1.0, 5.0, 0.5]] * 900
    p = decide(far + back)
    assert p[399].tolist() == [1.0, 0, 0, 0]
    assert p[-1].argmax() == 2
    assert np.abs(p.sum(1) - 1).max() < 1e-10
    assert p.min() >= 0


def test_conditions_of_optimality_with_many_clients() -> None:
    """Two hundred clients, two hundred rounds: to 1e-8 in every round."""
    draw = np.random.default_rng(1)
    rule, base = newton(cdf="weibull"), draw.gamma(2, 1, 200)
    state, corners = rule.init(200), 0
    for _ in range(200):
        _, state, *_ = rule.weights(state, cohort([1] * 200, loss=base * draw.gamma(4, 0.25, 200)))
        slope = (state.A @ state.p + state.b).numpy()
        on = state.p.numpy() > 0
        assert np.ptp(slope[on]) <= 1e-8
        assert slope[~on].min(initial=np.inf) >= slope[on].max() - 1e-8
        corners = max(corners, int((~on).sum()))
    assert corners > 50


@given(st.lists(st.floats(0.01, 50), min_size=2, max_size=8, unique=True), st.floats(0.1, 100))
def test_properties(losses: list[float], factor: float) -> None:
    """Scale-free, equivariant, ordered like the losses, blind to sizes, on the simplex."""
    rounds = [losses, losses[::-1], losses]
    p = decide(rounds)
    assert p == pytest.approx(decide([[factor * f for f in r] for r in rounds]), abs=1e-9)
    assert p[:, ::-1] == pytest.approx(decide([r[::-1] for r in rounds]), abs=1e-9)
    order = np.argsort(losses)
    assert (np.diff(p[0][order]) >= -1e-12).all()
    sizes = [float(i + 1) for i in range(len(losses))]
    assert p == pytest.approx(decide(rounds, examples=sizes), abs=1e-12)
    assert np.abs(p.sum(1) - 1).max() < 1e-10
    assert p.min() >= 0


@pytest.mark.parametrize("losses", [[0.4] * 4, [0.0] * 4, [1e-30] * 4, [1e30] * 4])
def test_equal_losses_keep_the_weights_equal(losses: list[float]) -> None:
    """Also when all are zero: nothing is divided by their mean."""
    for cdf in CDFS:
        p = decide([losses] * 50, newton(cdf=cdf))
        assert p == pytest.approx(np.full_like(p, 1 / 4), abs=1e-12)


def test_one_client_has_all_the_weight() -> None:
    assert decide([[0.7], [0.2]]).tolist() == [[1.0], [1.0]]


def test_a_client_that_fails_counts_with_the_mean_response() -> None:
    """The others' weights are renormalised; the failed one's share is as if it were average."""
    rule = newton()
    p, state, *_ = rule.weights(rule.init(3), cohort([1, 1], [0, 2], n=3, loss=[0.5, 1.5]))
    r = ndtr(np.array([-0.5, 0.0, 0.5])) / 3
    whole = newton().init(3)
    g = torch.from_numpy(-r / (1 + r.mean()))
    assert torch.allclose(state.A, torch.addr(whole.A, g, g, alpha=0.75))
    assert torch.allclose(p, state.p[[0, 2]] / state.p[[0, 2]].sum())


def test_memory_can_be_saved_and_restored() -> None:
    """A checkpoint is the named leaves; what goes on from it is the same bit for bit."""
    rule = newton()
    _, state, *_ = rule.weights(rule.init(3), cohort([1] * 3, loss=LOSSES[0]))
    again = tree.restore(tree.named(state), rule.init(3))
    for loss in LOSSES[1:]:
        c = cohort([1] * 3, loss=loss)
        (p, state, *_), (q, again, *_) = rule.weights(state, c), rule.weights(again, c)
        assert torch.equal(p, q)


# -- as a method --------------------------------------------------------------------------------


def test_everybody_must_take_part() -> None:
    task, data = network_task("dense")
    with pytest.raises(
        ConfigError, match=r"3 of 6 clients answer; set participation\.fraction = 1"
    ):
        composed(task, data, "aaggff_s", **sampled(0.5))
    with pytest.raises(ConfigError, match="3 of 6 clients answer"):
        composed(task, data, "aaggff_s", "phase_shift")


def test_range_must_not_be_empty() -> None:
    task, data = network_task("dense")
    with pytest.raises(
        ConfigError, match=r"method\.low = 0\.5 .* below the largest response 0\.167"
    ):
        composed(task, data, ("aaggff_s", {"low": 0.5}))
    composed(task, data, ("aaggff_s", {"low": 0.5, "high": 1.0}))


def test_the_new_decision_weighs_the_same_rounds_updates() -> None:
    task, data = network_task("dense")
    played = play(composed(task, data, "aaggff_s"), data, 3)
    for state, done in zip(played.states[1:], played.rounds, strict=True):
        assert torch.allclose(done.weights, state.mixing[0].p.float())
    assert not torch.allclose(played.rounds[0].weights, torch.full((6,), 1 / 6), atol=1e-4)


def test_clients_that_drop_out_or_send_nonsense_do_not_stop_it() -> None:
    """Nonsense is refused before the rule sees it."""
    task, data = network_task("dense")
    faults = Faults(drop=0.3, garbage=0.3)
    played = play(composed(task, data, "aaggff_s"), data, 8, faults=faults)
    assert any(done.rejected for done in played.rounds)
    assert all(torch.isfinite(done.weights).all() for done in played.rounds)
    p = played.states[-1].mixing[0].p
    assert float(p.sum()) == pytest.approx(1)
