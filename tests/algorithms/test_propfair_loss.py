"""PropFair on the clients: the logarithm of what is left to a baseline."""

import math

import pytest
import torch
from autoencoders import clients, vae
from federations import (
    Quadratic,
    at,
    composed,
    distance,
    network_task,
    play,
    same,
    scalars,
)
from weighing import plain

from unalike.algorithms.propfair import Bargain
from unalike.errors import ConfigError
from unalike.parts.optim import Sgd


def test_curve() -> None:
    """-log(1 - l/M) up to M - 0.2, beyond it l/M; slopes 1/(M - l) and 1/M."""
    loss = torch.tensor([0.0, 1.0, 2.8, 2.81, 3.0, 9.0], dtype=torch.float64, requires_grad=True)
    value = Bargain(3.0)(loss)
    expected = [0.0, math.log(3 / 2), math.log(3 / 0.2), 2.81 / 3, 1.0, 3.0]
    assert plain(value) == pytest.approx(expected, abs=1e-12)
    (slope,) = torch.autograd.grad(value.sum(), loss)
    assert plain(slope) == pytest.approx([1 / 3, 1 / 2, 5.0, 1 / 3, 1 / 3, 1 / 3], abs=1e-9)


def test_in_a_run() -> None:
    """One step of -log(1 - F/M) is one of rate / (M - F)."""
    data = scalars([0.0, 10.0])
    recipe = composed(Quadratic(), data, ("propfair_loss", {"baseline": 20.0}), opt=Sgd(0.1))
    expected = 4 - 0.1 / 2 * (4 / (20 - 8) - 6 / (20 - 18))
    assert play(recipe, data, 1, at(w=4.0)).trace() == pytest.approx([expected])


def test_both_forms_agree_where_one_step_is_taken() -> None:
    """Weights n / (M - F) and gradients of the logarithm point the same way."""
    data, start = scalars([0.0, 10.0], [2, 3]), at(w=4.0)
    steps = []
    for name in ("propfair", "propfair_loss"):
        recipe = composed(Quadratic(), data, (name, {"baseline": 20.0}), opt=Sgd(1e-3))
        steps.append(play(recipe, data, 1, start, batch_size=3).trace()[0] - 4.0)
    left = (2 / 12 + 3 / 2) / 5
    assert steps[1] == pytest.approx(steps[0] * left, rel=1e-9)


def test_the_same_in_both_engines() -> None:
    task, data = network_task("conv")
    recipe = composed(task, data, "propfair_loss")
    a, b = (play(recipe, data, 2, engine=e).x for e in ("sequential", "vectorized"))
    assert distance(a, b) < 1e-4
    assert not same(a, play(composed(task, data, "fedavg"), data, 2).x)


def test_clients_report_the_plain_loss() -> None:
    task, data = network_task("dense")
    plain_loss = play(composed(task, data, ("term", {"tilt": 0.5})), data, 1)
    curved = play(composed(task, data, "propfair_loss", ("term", {"tilt": 0.5})), data, 1)
    assert torch.allclose(plain_loss.rounds[0].weights, curved.rounds[0].weights)


def test_a_reconstruction_has_no_baseline() -> None:
    with pytest.raises(ConfigError, match="'propfair_loss' is made for a classification loss"):
        composed(vae(), clients(), "propfair_loss")
