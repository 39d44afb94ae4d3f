"""FedAvg: local descent, then a mean by examples."""

import pytest
import torch
from federations import Quadratic, Works, at, composed, play, scalars

from unalike.algorithms.fedavg import FedAvg
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe


def test_unequal_sizes_weigh_by_examples() -> None:
    """One full step from 4: locals 4 + 0.5 (c - 4); sizes 1 to 4."""
    data = scalars([0.0, 4.0, 8.0, 12.0], [1, 2, 3, 4])
    recipe = Recipe(FedAvg(Quadratic(), Sgd(0.5)))
    expected = (1 * 2 + 2 * 4 + 3 * 6 + 4 * 8) / 10
    assert play(recipe, data, 1, at(w=4.0), batch_size=10).trace()[0] == pytest.approx(expected)
    assert torch.allclose(
        play(recipe, data, 1, at(w=4.0), batch_size=10).rounds[0].weights,
        torch.tensor([0.1, 0.2, 0.3, 0.4]),
    )


def test_two_parabolas() -> None:
    """Minima 0 and 10, w = 4, rate 0.1, 2 and 8 steps: 4 x 0.9^2 and 10 - 6 x 0.9^8, halved."""
    recipe = Recipe(FedAvg(Quadratic(), Sgd(0.1)), schedule=Works((2, 8)))
    found = play(recipe, scalars([0.0, 10.0]), 1, at(w=4.0)).trace()[0]
    assert found == pytest.approx((4 * 0.9**2 + 10 - 6 * 0.9**8) / 2, abs=1e-6)


def test_it_is_the_draft_as_it_comes() -> None:
    """No slot filled, no part exchanged."""
    made = composed(Quadratic(), scalars([0.0, 1.0]), "fedavg", opt=Sgd(0.3))
    assert made.algorithm == FedAvg(Quadratic(), Sgd(0.3))
