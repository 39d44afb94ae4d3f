"""FedCGAN: its networks counted, its verdicts by hand, and a step beside a plain loop."""

import math

import generating
import pytest
import torch
from federations import distance
from generating import parameters
from torch import Tensor, nn

from unalike import rng
from unalike.batches import Batch
from unalike.models.generators import discriminator, generator
from unalike.network import Network
from unalike.parts.generation.generators import AuxiliaryGan, Players
from unalike.parts.optim import Sgd


@pytest.mark.parametrize(
    ("shape", "classes", "making", "judging"),
    [
        ((1, 32, 32), 10, 1_222_528, 1_708_555),
        ((3, 32, 32), 10, 1_224_576, 1_710_603),
        ((3, 64, 64), 7, 1_474_688, 2_758_920),
        ((1, 64, 64), 11, 1_489_024, 2_757_900),
    ],
)
def test_they_have_the_published_sizes(
    shape: tuple[int, ...], classes: int, making: int, judging: int
) -> None:
    assert parameters(generator(shape, classes)) == making
    assert parameters(discriminator(shape, classes)) == judging


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 64, 64), (1, 8, 8), (5,)])
def test_examples_have_their_shape(shape: tuple[int, ...]) -> None:
    assert generator(shape, 4)(torch.rand(2, 128 + 4)).shape == (2, *shape)
    assert discriminator(shape, 4)(torch.rand(2, *shape)).shape == (2, 5)


def gan(features: int, classes: int, latent: int) -> AuxiliaryGan:
    nets = generator((features,), classes, latent), discriminator((features,), classes)
    return AuxiliaryGan(*(Network(n.double()) for n in nets), Sgd(0.1), classes, latent)


@pytest.mark.parametrize("truth", [0, 1])
def test_logits_of_zero_say_nothing(truth: int) -> None:
    """They lose log 2 about being real and log 3 about three classes; padding has no say."""
    said = torch.zeros(3, 4)
    said[2] = 100.0
    real = torch.tensor([True, True, False])
    batch = Batch(torch.zeros(3, 2), torch.tensor([0, 2, 1]), real, rng.key(0), 0, 0)
    found = gan(2, 3, 4).verdict(said, truth, batch)
    assert float(found) == pytest.approx(math.log(2) + math.log(3))


def test_a_step_is_that_of_a_plain_loop() -> None:
    """SGD on the discriminator, then on the generator against the new one, by PyTorch's tape."""
    ours = gan(3, 2, 2)
    w = {k: v.double() for k, v in ours.init(rng.key(1)).items()}
    g_own, d_own = ({k[2:]: v for k, v in w.items() if k[:2] == n} for n in ("g.", "d."))
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(5, 3, dtype=torch.float64, generator=draw)
    y = torch.tensor([0, 1, 1, 0, 1])
    batch = Batch(x, y, torch.ones(5, dtype=torch.bool), rng.key(2), 0, 0)
    after = ours.step(Players(g_own, d_own, {}, {}, (), ()), batch, torch.tensor(1.0))

    g, d = generator((3,), 2, 2).double(), discriminator((3,), 2).double()
    g.load_state_dict(g_own)
    d.load_state_dict(d_own)
    key = rng.fold_in(rng.fold_in(rng.key(2), rng.Stream.METHOD), 0)
    z = torch.cat([2 * rng.uniform(key, 5, 2).double() - 1, nn.functional.one_hot(y, 2)], 1)

    def loss(out: Tensor, truth: float) -> Tensor:
        wanted = torch.full((5,), truth, dtype=torch.float64)
        return nn.BCEWithLogitsLoss()(out[:, 0], wanted) + nn.CrossEntropyLoss()(out[:, 1:], y)

    (loss(d(2 * x - 1), 1.0) + loss(d(g(z).detach()), 0.0)).backward()
    torch.optim.SGD(d.parameters(), 0.1).step()
    g.zero_grad()
    loss(d(g(z)), 1.0).backward()
    torch.optim.SGD(g.parameters(), 0.1).step()
    assert distance(dict(d.state_dict()), after.d) < 1e-7
    assert distance(dict(g.state_dict()), after.g) < 1e-7


def test_weights_begin_small() -> None:
    w = gan(50, 2, 60).init(rng.key(0))
    assert float(w["g.0.weight"].std()) == pytest.approx(0.02, rel=0.05)
    assert not w["g.0.bias"].any()


def test_both_engines_agree() -> None:
    generating.engines_agree("fedcgan")
    generating.engines_agree_on_images("fedcgan")


def test_judged_on_graphs() -> None:
    generating.is_judged_on_graphs("fedcgan")


def test_what_travels() -> None:
    generating.travels_whole_and_draws_every_class("fedcgan")


def test_what_it_cannot_draw() -> None:
    generating.refuses_what_it_cannot_draw("fedcgan")
