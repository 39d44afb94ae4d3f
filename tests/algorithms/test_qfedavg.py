"""q-FedAvg: powers of the loss over an estimate of curvature."""

from dataclasses import replace

import pytest
import torch
from federations import (
    Quadratic,
    at,
    composed,
    distance,
    network_task,
    play,
    sampled,
    scalars,
)
from weighing import CLOSE, LENGTHS, UPDATES, F, plain, weigh

from unalike.algorithms.qfedavg import QFedAvg
from unalike.errors import ConfigError
from unalike.parts.optim import Adam, Sgd


def test_coefficients() -> None:
    """Up to their sum, which is the step length, they are n_i F_i^q."""
    p = weigh(QFedAvg(q=2.0, lipschitz=10.0), loss=F, sqnorm=[1.0, 2.0, 3.0])
    assert plain(p / p.sum()) == pytest.approx([0.017544, 0.140351, 0.842105], **CLOSE)


@pytest.mark.parametrize(
    ("by_examples", "step"), [(False, [-0.016708, 0.043163]), (True, [-0.026322, 0.049783])]
)
def test_step(by_examples: bool, step: list[float]) -> None:
    """L = 10 from a learning rate of 0.1; what is subtracted from the model."""
    rule = QFedAvg(q=1.0, lipschitz=10.0, by_examples=by_examples)
    p = weigh(rule, loss=F, sqnorm=LENGTHS)
    assert plain(p @ UPDATES) == pytest.approx(step, **CLOSE)


def test_curvature() -> None:
    """The weights are L F / sum h."""
    rule = QFedAvg(q=1.0, lipschitz=10.0, by_examples=False)
    p = weigh(rule, loss=F, sqnorm=LENGTHS)
    assert 10 * F[0] / float(p[0]) == pytest.approx(5.05 + 10.25 + 20.61, abs=1e-9)


@pytest.mark.parametrize(("q", "scale"), [(10.0, 1e31), (40.0, 1e8), (40.0, 1e-9)])
def test_no_loss_is_too_large_a_power(q: float, scale: float) -> None:
    """Without the curvature term (no movement) weights are F^q / sum F^q: free of scale."""
    p = weigh(QFedAvg(q=q, lipschitz=10.0), 2, loss=[scale, 2 * scale], sqnorm=[0.0, 0.0])
    want = torch.tensor([0.5**q, 1.0]).double()  # two clients of one size
    assert torch.allclose(p, want / want.sum(), rtol=1e-9)


def test_no_power_is_fedavg() -> None:
    task, data = network_task("dense")
    x = play(composed(task, data, ("qfedavg", {"q": 0.0}), **sampled(0.5)), data).x
    assert distance(x, play(composed(task, data, "fedavg", **sampled(0.5)), data).x) < 1e-6


def test_in_a_run() -> None:
    """One step each from w = 4 with rate 0.1 on minima 0 and 10: F = 8, 18, x - x_i = 0.4, -0.6.

    L = 10, q = 1, sizes 1 and 3: sum n F L (x - x_i) / sum n h, h = ||L (x - x_i)||^2 + L F.
    """
    data = scalars([0.0, 10.0], [1, 3])
    recipe = composed(Quadratic(), data, "qfedavg", opt=Sgd(0.1))
    h = 1 * (16 + 80) + 3 * (36 + 180)
    expected = 4 - (1 * 8 * 4 - 3 * 18 * 6) / h
    assert play(recipe, data, 1, at(w=4.0), batch_size=3).trace() == pytest.approx([expected])


def test_it_keeps_its_first_learning_rate() -> None:
    """L does not follow a schedule, as in the authors' code."""
    data = scalars([0.0, 10.0], [1, 3])
    recipe = composed(Quadratic(), data, "qfedavg", opt=Sgd(0.1))
    recipe = replace(recipe, decay=lambda t: 0.5)
    h = 1 * (4 + 80) + 3 * (9 + 180)  # half the rate, half the updates, the same L
    expected = 4 - (1 * 8 * 2 - 3 * 18 * 3) / h
    slowed = play(recipe, data, 1, at(w=4.0), batch_size=3)
    assert slowed.trace() == pytest.approx([expected])


def test_it_wants_a_learning_rate_it_can_read() -> None:
    task, data = network_task("dense")
    for opt in (Adam(0.01), Sgd(0.1, momentum=0.9)):
        with pytest.raises(ConfigError, match="'qfedavg' is derived for plain SGD"):
            composed(task, data, "qfedavg", opt=opt)
        composed(task, data, ("qfedavg", {"lipschitz": 5.0}), opt=opt)
