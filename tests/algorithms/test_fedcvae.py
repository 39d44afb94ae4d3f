"""FedCVAE: its network counted, its loss by hand, and classes that it learns to draw."""

import math
from typing import Any

import generating
import numpy as np
import pytest
import torch
from federations import Data, composed, federation, network_task, play
from generating import parameters

from unalike.models.generators import ConditionalAutoencoder
from unalike.network import Network
from unalike.parts.generation.generators import ConditionalVae
from unalike.parts.optim import Sgd


@pytest.mark.parametrize(
    ("shape", "classes", "published"),
    [
        ((1, 32, 32), 10, 1_850_881),
        ((3, 32, 32), 10, 1_854_979),
        ((3, 64, 64), 7, 3_056_131),
        ((1, 64, 64), 11, 3_068_417),
    ],
)
def test_it_has_the_published_size(shape: tuple[int, ...], classes: int, published: int) -> None:
    assert parameters(ConditionalAutoencoder(shape, classes)) == published


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 64, 64), (1, 8, 8), (5,)])
def test_what_comes_back_has_the_shape_of_what_went_in(shape: tuple[int, ...]) -> None:
    net = ConditionalAutoencoder(shape, 4)
    again, mean, sigma = net(torch.rand(2, *shape), torch.rand(2, 128), torch.rand(2, 4))
    assert again.shape == (2, *shape)
    assert mean.shape == sigma.shape == (2, 128)
    assert (sigma > 0).all()


@pytest.mark.parametrize(("how", "errors"), [("sum", 1.25), ("mean", 0.625)])
def test_terms(how: Any, errors: float) -> None:
    """KL(N(1, 2^2) || N(0, 1)) = (1 + 4 - 1) / 2 - log 2, and squared errors of 0.25 and 1."""
    out = torch.tensor([[0.5, 0.0]]), torch.tensor([[1.0]]), torch.tensor([[2.0]])
    net = Network(ConditionalAutoencoder((2,), 2, 1))
    found = ConditionalVae(net, Sgd(0.1), 2, 1, 3.0, how).terms(out, torch.tensor([[0.0, 1.0]]))
    assert float(found) == pytest.approx(errors + 3 * (2 - math.log(2)))


def blobs(n: int = 240) -> Data:
    """Three classes, each a bright pixel in a place of its own."""
    draw, data = np.random.default_rng(0), federation(sizes=(n // 2, n // 2))
    x = 0.1 * torch.from_numpy(draw.random((n, 1, 4, 4))).float()
    for i, y in enumerate(data.examples.y.tolist()):
        x[i, 0, y, y] = 1.0
    data.examples.x.copy_(x)
    return data


def test_it_learns_what_classes_look_like() -> None:
    """Its mean example of a class is bright where the class is, and dark elsewhere."""
    task, _ = network_task("dense")
    data = blobs()
    recipe = composed(task, data, ("fedcvae", {"latent": 2, "per_class": 20}), epochs=10.0)
    played = play(recipe, data, 6)
    made = recipe.algorithm.synthetic(played.server)  # type: ignore[attr-defined]
    for c in range(3):
        mean = made.x[made.y == c].mean(0)[0]
        assert float(mean[c, c]) > 0.8
        assert float(mean.sum() - mean[c, c]) / 15 < 0.2


def test_both_engines_agree() -> None:
    generating.engines_agree("fedcvae")
    generating.engines_agree_on_images("fedcvae")


def test_judged_on_graphs() -> None:
    generating.is_judged_on_graphs("fedcvae")


def test_what_travels() -> None:
    generating.travels_whole_and_draws_every_class("fedcvae")


def test_what_it_cannot_draw() -> None:
    generating.refuses_what_it_cannot_draw("fedcvae")
