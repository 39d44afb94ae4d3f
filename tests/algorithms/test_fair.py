"""AFL, q-FedAvg, TERM, PropFair and FedMGDA+ on numbers computed apart from this package."""

import math

import numpy as np
import pytest
import torch
from federations import (
    Quadratic,
    at,
    cohort,
    composed,
    distance,
    network_task,
    play,
    same,
    sampled,
    scalars,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from unalike.parts.curve import Bargain
from unalike.parts.mixing.afl import Agnostic
from unalike.parts.mixing.mgda import CommonDescent
from unalike.parts.mixing.proportional import Proportional
from unalike.parts.mixing.q_fair import QFair
from unalike.parts.mixing.tilted import Tilted

from unalike import tree
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Mixing
from unalike.parts.optim import Adam, Sgd

CLOSE = {"abs": 6e-7, "rel": 0}
F, N = [0.5, 1.0, 2.0], [10, 20, 30]
UPDATES = torch.tensor([[0.02, -0.01], [0.03, 0.04], [-0.05, 0.06]], dtype=torch.float64)  # x - x_i
LENGTHS = UPDATES.square().sum(1).tolist()


def plain(p: Tensor) -> list[float]:
    return [float(v) for v in p.detach()]


def weigh(rule: Mixing, n: int = 3, **stats: list[float]) -> Tensor:
    p, _ = rule.weights(rule.init(n), cohort(N if n == 3 else [1] * n, **stats))
    return p


# -- weights on three clients -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by_examples", "expected"),
    [(True, [0.100816, 0.258901, 0.640283]), (False, [0.227220, 0.291756, 0.481024])],
)
def test_term(by_examples: bool, expected: list[float]) -> None:
    assert plain(weigh(Tilted(0.5, by_examples), loss=F)) == pytest.approx(expected, **CLOSE)


def test_propfair() -> None:
    expected = [0.090909, 0.227273, 0.681818]
    assert plain(weigh(Proportional(3.0), loss=F)) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize(
    ("rate", "expected"), [(0.1, [0.266667, 0.316667, 0.416667]), (1.0, [0.0, 0.0, 1.0])]
)
def test_afl(rate: float, expected: list[float]) -> None:
    assert plain(weigh(Agnostic(rate), loss=F)) == pytest.approx(expected, **CLOSE)


def test_qfedavg_coefficients() -> None:
    """Up to their sum, which is the step length, they are n_i F_i^q."""
    p = weigh(QFair(2.0, 10.0), loss=F, sqnorm=[1.0, 2.0, 3.0])
    assert plain(p / p.sum()) == pytest.approx([0.017544, 0.140351, 0.842105], **CLOSE)


@pytest.mark.parametrize(
    ("by_examples", "step"), [(False, [-0.016708, 0.043163]), (True, [-0.026322, 0.049783])]
)
def test_qfedavg_step(by_examples: bool, step: list[float]) -> None:
    """L = 10 from a learning rate of 0.1; what is subtracted from the model."""
    p = weigh(QFair(1.0, 10.0, by_examples), loss=F, sqnorm=LENGTHS)
    assert plain(p @ UPDATES) == pytest.approx(step, **CLOSE)


def test_qfedavg_curvature() -> None:
    """The weights are L F / sum h."""
    p = weigh(QFair(1.0, 10.0, by_examples=False), loss=F, sqnorm=LENGTHS)
    assert 10 * F[0] / float(p[0]) == pytest.approx(5.05 + 10.25 + 20.61, abs=1e-9)


@pytest.mark.parametrize(("q", "scale"), [(10.0, 1e31), (40.0, 1e8), (40.0, 1e-9)])
def test_no_loss_is_too_large_a_power(q, scale):
    """Without the curvature term (no movement) weights are F^q / sum F^q: free of scale."""
    p = weigh(QFair(q, 10.0), 2, loss=[scale, 2 * scale], sqnorm=[0.0, 0.0])
    want = torch.tensor([0.5**q, 1.0]).double()  # two clients of one size
    assert torch.allclose(p, want / want.sum(), rtol=1e-9)


def test_fedmgda() -> None:
    gram = (UPDATES @ UPDATES.T).tolist()
    p = weigh(CommonDescent(0.1), gram=gram)
    share = p * UPDATES.norm(dim=1)
    assert plain(share) == pytest.approx([0.386474, 0.233333, 0.380193], **CLOSE)
    assert plain(p @ UPDATES) == pytest.approx([0.242279, 0.305902], **CLOSE)
    assert torch.allclose(weigh(CommonDescent(0.1, lr=2.0), gram=gram), 2 * p)


def test_propfair_curve() -> None:
    """-log(1 - l/M) up to M - 0.2, beyond it l/M; slopes 1/(M - l) and 1/M."""
    loss = torch.tensor([0.0, 1.0, 2.8, 2.81, 3.0, 9.0], dtype=torch.float64, requires_grad=True)
    value = Bargain(3.0)(loss)
    expected = [0.0, math.log(3 / 2), math.log(3 / 0.2), 2.81 / 3, 1.0, 3.0]
    assert plain(value) == pytest.approx(expected, abs=1e-12)
    (slope,) = torch.autograd.grad(value.sum(), loss)
    assert plain(slope) == pytest.approx([1 / 3, 1 / 2, 5.0, 1 / 3, 1 / 3, 1 / 3], abs=1e-9)


# -- limits and guards --------------------------------------------------------------------------

LIMITS = [
    ("term", {"tilt": 0.0}),
    ("qfedavg", {"q": 0.0}),
    ("propfair", {"baseline": 1e12}),
]


@pytest.mark.parametrize(("name", "settings"), LIMITS)
def test_limits_are_fedavg(name: str, settings: dict[str, float]) -> None:
    task, data = network_task("dense")
    x = play(composed(task, data, (name, settings), **sampled(0.5)), data).x
    assert distance(x, play(composed(task, data, "fedavg", **sampled(0.5)), data).x) < 1e-6


def test_afl_without_a_step_weighs_all_alike() -> None:
    assert plain(weigh(Agnostic(0.0), loss=F)) == pytest.approx([1 / 3] * 3)


def test_term_tends_to_the_worst_client_and_back_to_the_best() -> None:
    assert plain(weigh(Tilted(1000.0), loss=F)) == pytest.approx([0, 0, 1])
    assert plain(weigh(Tilted(-1000.0), loss=F)) == pytest.approx([1, 0, 0])


def test_afl_tends_to_the_worst_client() -> None:
    """Hundreds of rounds: a vertex is reached and kept."""
    rule = Agnostic(0.01)
    state = rule.init(3)
    for _ in range(300):
        p, state = rule.weights(state, cohort(N, loss=F))
        assert float(p.sum()) == pytest.approx(1)
    assert plain(p) == [0.0, 0.0, 1.0]


def test_afl_leaves_absent_clients_alone() -> None:
    """Who did not answer counts with the mean loss of those who did."""
    rule = Agnostic(0.1)
    p, state = rule.weights(rule.init(4), cohort([1, 1], [0, 3], n=4, loss=[1.0, 2.0]))
    assert plain(state) == pytest.approx([0.2, 0.25, 0.25, 0.3])
    assert plain(p) == pytest.approx([0.4, 0.6])


def test_afl_when_all_the_weight_is_with_absent_clients() -> None:
    rule = Agnostic(0.1)
    state = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    p, _ = rule.weights(state, cohort([1, 9], [0, 1], n=3, loss=[1.0, 1.0]))
    assert plain(p) == [0.5, 0.5]


@pytest.mark.parametrize("losses", [[0.0] * 3, [1e-30] * 3, [1e30] * 3, [0.0, 1.0, 700.0]])
def test_extreme_losses_give_finite_weights(losses: list[float]) -> None:
    for rule in (
        Agnostic(1.0),
        Tilted(10.0),
        Proportional(2.0),
        QFair(5.0, 10.0),
        QFair(0.1, 10.0),
    ):
        p = weigh(rule, loss=losses, sqnorm=LENGTHS)
        assert torch.isfinite(p).all()
        assert (p >= 0).all()
        assert float(p.sum()) > 0


def test_propfair_beyond_its_baseline() -> None:
    """Losses above M - floor count as M - floor: most, finitely, and never negatively."""
    p = weigh(Proportional(1.5), loss=[1.3, 1.5, 40.0])
    assert plain(p) == pytest.approx([n / 60 for n in N])


def test_one_client_has_all_the_weight() -> None:
    for rule in (Agnostic(), Tilted(), Proportional()):
        assert plain(weigh(rule, 1, loss=[0.7])) == [1.0]
    assert plain(weigh(CommonDescent(lr=0.5), 1, gram=[[4.0]])) == pytest.approx([0.25])


# -- FedMGDA+ -----------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(2, 9), st.integers(1, 6))
def test_fedmgda_direction_descends_for_everybody(seed: int, n: int, d: int) -> None:
    """<sum l d, d_i> >= ||sum l d||^2 for all i: what makes the direction common."""
    updates = torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d)))
    p = weigh(CommonDescent(1.0), n, gram=(updates @ updates.T).tolist())
    step, unit = p @ updates, updates / updates.norm(dim=1, keepdim=True)
    assert ((unit @ step) >= step @ step - 1e-6).all()
    assert float(step.norm()) <= 1 + 1e-9


def test_fedmgda_without_spread_is_the_mean_direction() -> None:
    gram = (UPDATES @ UPDATES.T).tolist()
    p = weigh(CommonDescent(0.0), gram=gram)
    assert torch.allclose(p @ UPDATES, (UPDATES / UPDATES.norm(dim=1, keepdim=True)).mean(0))


def test_fedmgda_with_a_client_that_did_not_move() -> None:
    updates = UPDATES.clone()
    updates[1] = 0
    p = weigh(CommonDescent(0.1), gram=(updates @ updates.T).tolist())
    assert torch.isfinite(p).all()
    p = weigh(CommonDescent(0.1), gram=[[0.0] * 3] * 3)
    assert torch.isfinite(p).all()
    assert float(p.sum()) > 0  # buffers are divided by it


def test_fedmgda_in_a_run_moves_by_unit_directions() -> None:
    """Two parabolas on either side of the start: the directions cancel, nobody is harmed."""
    data = scalars([0.0, 10.0], [1, 5])
    parts = {"opt": Sgd(0.1)}
    mid = composed(Quadratic(), data, ("fedmgda", {"epsilon": 1.0}), **parts)
    assert play(mid, data, 3, at(w=4.0), batch_size=5).trace() == pytest.approx([4.0] * 3)
    out = play(mid, data, 3, at(w=20.0), batch_size=5).trace()
    assert out == pytest.approx([19.0, 18.0, 17.0])


# -- whole runs ---------------------------------------------------------------------------------


def test_qfedavg_in_a_run() -> None:
    """One step each from w = 4 with rate 0.1 on minima 0 and 10: F = 8, 18, x - x_i = 0.4, -0.6.

    L = 10, q = 1, sizes 1 and 3: sum n F L (x - x_i) / sum n h, h = ||L (x - x_i)||^2 + L F.
    """
    data = scalars([0.0, 10.0], [1, 3])
    recipe = composed(Quadratic(), data, "qfedavg", opt=Sgd(0.1))
    h = 1 * (16 + 80) + 3 * (36 + 180)
    expected = 4 - (1 * 8 * 4 - 3 * 18 * 6) / h
    assert play(recipe, data, 1, at(w=4.0), batch_size=3).trace() == pytest.approx([expected])


def test_qfedavg_keeps_its_first_learning_rate() -> None:
    """L does not follow a schedule, as in the authors' code."""
    data = scalars([0.0, 10.0], [1, 3])
    recipe = composed(Quadratic(), data, "qfedavg", opt=Sgd(0.1))
    h = 1 * (4 + 80) + 3 * (9 + 180)  # half the rate, half the updates, the same L
    expected = 4 - (1 * 8 * 2 - 3 * 18 * 3) / h
    slowed = play(recipe, data, 1, at(w=4.0), batch_size=3, decay=lambda t: 0.5)
    assert slowed.trace() == pytest.approx([expected])


def test_qfedavg_wants_a_learning_rate_it_can_read() -> None:
    task, data = network_task("dense")
    for opt in (Adam(0.01), Sgd(0.1, momentum=0.9)):
        with pytest.raises(ConfigError, match="'qfedavg' is derived for plain SGD"):
            composed(task, data, "qfedavg", opt=opt)
        composed(task, data, ("qfedavg", {"lipschitz": 5.0}), opt=opt)


def test_propfair_on_clients_in_a_run() -> None:
    """One step of -log(1 - F/M) is one of rate / (M - F)."""
    data = scalars([0.0, 10.0])
    recipe = composed(Quadratic(), data, ("propfair_loss", {"baseline": 20.0}), opt=Sgd(0.1))
    expected = 4 - 0.1 / 2 * (4 / (20 - 8) - 6 / (20 - 18))
    assert play(recipe, data, 1, at(w=4.0)).trace() == pytest.approx([expected])


def test_propfair_forms_agree_where_one_step_is_taken() -> None:
    """Weights n / (M - F) and gradients of the logarithm point the same way."""
    data, start = scalars([0.0, 10.0], [2, 3]), at(w=4.0)
    steps = []
    for name in ("propfair", "propfair_loss"):
        recipe = composed(Quadratic(), data, (name, {"baseline": 20.0}), opt=Sgd(1e-3))
        steps.append(play(recipe, data, 1, start, batch_size=3).trace()[0] - 4.0)
    left = (2 / 12 + 3 / 2) / 5
    assert steps[1] == pytest.approx(steps[0] * left, rel=1e-9)


def test_propfair_on_clients_is_the_same_in_both_engines() -> None:
    task, data = network_task("conv")
    recipe = composed(task, data, "propfair_loss")
    a, b = (play(recipe, data, 2, engine=e).x for e in ("sequential", "vectorized"))
    assert distance(a, b) < 1e-4
    assert not same(a, play(composed(task, data, "fedavg"), data, 2).x)


def test_propfair_on_clients_reports_and_judges_the_plain_loss() -> None:
    task, data = network_task("dense")
    plain_loss = play(composed(task, data, ("term", {"tilt": 0.5})), data, 1)
    curved = play(composed(task, data, "propfair_loss", ("term", {"tilt": 0.5})), data, 1)
    assert torch.allclose(plain_loss.rounds[0].weights, curved.rounds[0].weights)


def test_fair_rules_on_data_they_were_made_for() -> None:
    """A small client far from the others: fair rules end with a lower worst loss than FedAvg."""
    data, worst = scalars([0.0, 0.5, 1.0, 8.0], [20, 20, 20, 2]), {}
    for name in ("fedavg", "afl", "qfedavg", "term", "propfair", "aaggff_s"):
        settings = {"baseline": 40.0} if name == "propfair" else {}
        recipe = composed(Quadratic(), data, (name, settings), opt=Sgd(0.3))
        w = play(recipe, data, 40, at(w=0.0), batch_size=20).trace()[-1]
        worst[name] = max(0.5 * (w - c) ** 2 for c in (0.0, 0.5, 1.0, 8.0))
    assert all(loss < worst["fedavg"] - 0.1 for name, loss in worst.items() if name != "fedavg")


def test_fedmgda_stays_where_somebody_is_content() -> None:
    """At one client's minimum every step would harm it."""
    data = scalars([0.0, 0.5, 8.0])
    recipe = composed(Quadratic(), data, ("fedmgda", {"epsilon": 1.0}), opt=Sgd(0.1))
    assert play(recipe, data, 2, at(w=0.0)).trace() == pytest.approx([0.0, 0.0], abs=1e-9)


def test_lengths_are_those_of_the_uploads() -> None:
    ups = {"a": torch.ones(3, 2, 2), "b": torch.tensor([[1.0], [2.0], [3.0]])}
    assert tree.sqnorms(ups).tolist() == [5.0, 8.0, 13.0]
    assert torch.equal(tree.sqnorms(ups), tree.gram(ups).diagonal())
