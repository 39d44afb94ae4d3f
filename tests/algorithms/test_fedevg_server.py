"""FedEvg's server: the Langevin step on the clients' energies, and its step size."""

import math
from itertools import pairwise

import pytest
import torch
from energies import linear_task, made
from federations import cohort
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unalike import tree
from unalike.algorithms.fedevg import FedEvg
from unalike.gradient import gradient
from unalike.parts.generation import langevin
from unalike.parts.generation.langevin import Up, cosine_step
from unalike.parts.generation.synthetic import Synthetic
from unalike.uploads import Stacked, Summed

# One synthetic example (0.4, 0.7) of the second class, two linear clients, sizes 0.6 : 0.4.
POINT = Synthetic(torch.tensor([[0.4, 0.7]], dtype=torch.float64), torch.tensor([1]))


CLIENTS = [
    ([[0.5, -1.0], [1.0, 0.25]], [0.1, -0.2]),
    ([[-0.3, 0.8], [-0.6, 0.4]], [0.0, -0.25]),
]


SIZES = torch.tensor([0.6, 0.4], dtype=torch.float64)


def method(beta: float = 0.1, **settings: object) -> FedEvg:
    """A server with a constant step size."""
    settings = {"step_first": beta, "step_last": beta, "noise": 0.0, **settings}
    return made(linear_task(), 2, 10, **settings)


def sent(evg: FedEvg) -> Up:
    """What the two clients' models say about the example."""
    slopes, says = [], []
    for weight, b in CLIENTS:
        w = {"weight": torch.tensor(weight).double(), "bias": torch.tensor(b).double()}
        slope, _ = gradient(lambda x, w=w: (evg.energy(w, x, POINT.y).sum(), ()), POINT.x)
        says.append(torch.exp(torch.sign(-evg.energy(w, POINT.x, POINT.y))))
        slopes.append(slope * says[-1][:, None])
    return Up(torch.stack(slopes), torch.stack(says))


def moved(evg: FedEvg, ups: Up, p: Tensor = SIZES) -> list[float]:
    """The synthetic example after a round."""
    return evg.server(POINT, Stacked(ups), p, cohort([6, 4])).x[0].tolist()


def test_energy_is_the_negative_logit_of_the_label() -> None:
    """And its gradient, and the signed factors."""
    ups = sent(method())
    slopes = (ups.gradient / ups.weight[..., None])[:, 0].tolist()
    assert slopes == [pytest.approx([-1, -0.25]), pytest.approx([0.6, -0.4])]
    assert ups.weight[:, 0].tolist() == pytest.approx([math.e, 1 / math.e])


def test_server_step() -> None:
    """Gradient (-0.867589, -0.262414): neither the true mixture's nor the plain average's."""
    evg = method(0.1)
    assert moved(evg, sent(evg)) == pytest.approx((0.486759, 0.726241), abs=1e-6)
    assert moved(evg, sent(evg)) != pytest.approx((0.456669, 0.729062), abs=1e-3)  # of densities


def densities(evg: FedEvg) -> Up:
    """What the same clients send for a mixture of densities: slopes, and logits of the label."""
    signed = sent(evg)
    slopes = signed.gradient / signed.weight[..., None]
    return Up(slopes, torch.tensor([[0.375], [-0.21]], dtype=torch.float64))


def test_server_step_on_the_mixture_of_densities() -> None:
    """Factors (1.454991, 0.810584), gradient (-0.566688, -0.290623): that of -log sum p exp(-E)."""
    evg = method(0.1, mixture="density")
    assert moved(evg, densities(evg)) == pytest.approx((0.456669, 0.729062), abs=1e-6)
    assert moved(evg, densities(evg), 7 * SIZES) == pytest.approx((0.456669, 0.729062), abs=1e-6)


def test_energies_without_bounds_do_not_overflow() -> None:
    """exp(5000) is no number; the client that is so sure decides alone."""
    evg = method(0.1, mixture="density")
    ups = densities(evg)
    for dtype in (torch.float32, torch.float64):
        sure = Up(ups.gradient.to(dtype), torch.tensor([[5000.0], [-5000.0]], dtype=dtype))
        assert moved(evg, sure) == pytest.approx((0.5, 0.725), abs=1e-6)


def test_equal_energies_give_the_plain_average() -> None:
    """Both mixtures: gradient (-0.36, -0.31)."""
    slopes, one = densities(method()).gradient, torch.ones(2, 1, dtype=torch.float64)
    for mixture in ("signed", "density"):
        got = moved(method(0.1, mixture=mixture), Up(slopes, one))
        assert got == pytest.approx((0.436, 0.731), abs=1e-9)


@pytest.mark.parametrize(
    ("beta", "expected"),
    [(0.1, (0.491759, 0.716241)), (0.01, (0.413676, 0.692624)), (10.0, (9.080890, 3.314135))],
)
def test_server_step_with_noise(
    beta: float, expected: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.01 times (0.5, -1)."""
    evg = method(beta, noise=0.01, clip_pixels=False)
    ups = sent(evg)
    noise = torch.tensor([[0.5, -1.0]], dtype=torch.float64)
    monkeypatch.setattr(langevin.rng, "normal", lambda key, *shape: noise)
    assert moved(evg, ups) == pytest.approx(expected, abs=5e-6)


def test_sums_that_are_made_as_answers_come_are_enough() -> None:
    """Everything in an upload is linear for the server."""
    evg, u = method(1.0, clip_pixels=False), torch.tensor([3.0, 2.0], dtype=torch.float64)
    ups = sent(evg)
    summed = Summed(tree.mean(u, ups), u)
    got = evg.server(POINT, summed, u / 5, cohort([6, 4])).x[0].tolist()
    assert got == pytest.approx(moved(evg, ups, u / 5), abs=1e-12)


def test_pixels_are_clipped() -> None:
    """A step of size 10 leaves the unit square at once."""
    assert moved(method(10.0), sent(method())) == [1.0, 1.0]


def test_a_logit_of_exactly_zero_counts_once() -> None:
    """sign 0, factor 1: gradient (-0.684880, -0.279543)."""
    evg = method(1.0, clip_pixels=False)
    both, says = sent(evg), torch.tensor([[math.e], [1.0]], dtype=torch.float64)
    undecided = Up(both.gradient / both.weight[..., None] * says[..., None], says)
    x = moved(evg, undecided)
    assert (0.4 - x[0], 0.7 - x[1]) == pytest.approx((-0.684880, -0.279543), abs=1e-6)


T500 = {
    0: (9.999127, 9.999213),
    1: (9.998933, 9.999038),
    50: (9.989326, 9.990383),
    125: (9.973442, 9.976074),
    250: (9.936951, 9.943199),
    375: (9.848809, 9.863792),
    450: (9.607477, 9.646376),
    490: (8.102398, 8.290449),
    497: (4.450072, 5.000065),
    498: (2.507524, 3.250022),
    499: (0.010000, 1.000000),
}


T10 = {0: 9.721206, 1: 9.245819, 2: 8.757284, 5: 6.904264, 7: 4.635388, 8: 2.569145, 9: 0.01}


def test_step_sizes() -> None:
    """Almost constant, then a collapse; not a half cosine."""
    for t, (to_hundredth, to_one) in T500.items():
        assert cosine_step(t, 500, 10, 0.01) == pytest.approx(to_hundredth, abs=1e-6)
        assert cosine_step(t, 500, 10, 1) == pytest.approx(to_one, abs=1e-6)
    for t, beta in T10.items():
        assert cosine_step(t, 10, 10, 0.01) == pytest.approx(beta, abs=1e-6)
    assert cosine_step(250, 500, 10, 0.01) != pytest.approx(4.989276, abs=1)


@given(st.integers(1, 400))
def test_the_last_step_is_exact(rounds: int) -> None:
    """Also for a single round; and the sizes only fall."""
    sizes = [cosine_step(t, rounds, 10, 0.01) for t in range(rounds)]
    assert sizes[-1] == pytest.approx(0.01, abs=1e-12)
    assert all(a >= b for a, b in pairwise(sizes))


def test_identical_clients_give_their_own_gradient() -> None:
    """And scaling all sizes changes nothing."""
    evg = method(1.0, clip_pixels=False)
    one = sent(evg)
    twice = tree.map(lambda v: v[:1].expand(2, *v.shape[1:]), one)
    assert moved(evg, twice) == pytest.approx([0.4 + 1.0, 0.7 + 0.25])
    assert moved(evg, one, 7 * SIZES) == pytest.approx(moved(evg, one))


def test_the_last_step_is_the_last_value():
    assert cosine_step(499, 500, 10.0, 0.01) == 0.01
