"""The 1-Wasserstein distance from N(0, 1): printed numbers, quadrature, other code, limits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, wasserstein_distance
from torch import Tensor
from torch.func import vmap

from unalike.parts.mixing.wasserstein import Drawn, w1

A, B, C = [-1.5, -0.5, 0, 0.5, 1.5], [0.5, 1, 1.5, 2, 2.5], [-0.2, -0.1, 0, 0.1, 0.2]


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


@pytest.mark.parametrize(
    ("sample", "exact", "midpoints", "drawn"),
    [
        ([0], 0.797885, 0.0, 0.798418),
        ([1], 1.166631, 1.0, 1.166071),
        ([-1, 1], 0.535377, 0.325510, 0.535314),
        ([-1, 0, 1], 0.343414, 0.021719, 0.343391),
        (A, 0.241080, 0.097140, 0.241277),
        (B, 1.504008, 1.5, 1.502990),
        (C, 0.677885, 0.602381, 0.678418),
    ],
)
def test_printed_numbers(sample, exact, midpoints, drawn):
    """Exactly, and from a million draws; the mid-point rule gives something else."""
    assert float(w1(column(*sample))) == pytest.approx(exact, abs=1e-6)
    assert float(w1(column(*sample), reference=Drawn(1_000_000, 0))) == pytest.approx(
        drawn, abs=1e-6
    )
    m = len(sample)
    quantiles = norm.ppf((np.arange(m) + 0.5) / m)
    assert np.abs(np.sort(sample) - quantiles).mean() == pytest.approx(midpoints, abs=1e-6)
    assert abs(exact - midpoints) > 1e-3


@pytest.mark.parametrize(
    ("mean", "std", "expected"), [(0.5, 1, 0.500035), (0, 0.5, 0.399031), (0, 2, 0.797531)]
)
def test_quantiles_of_other_normals(mean, std, expected):
    """A shift costs its length, a scale |s - 1| E|N|, up to the coarseness of 1000 points."""
    x = mean + std * norm.ppf((np.arange(1000) + 0.5) / 1000)
    assert float(w1(column(*x))) == pytest.approx(expected, abs=1e-6)
    assert expected == pytest.approx(mean + abs(std - 1) * math.sqrt(2 / math.pi), abs=2e-3)


@given(st.lists(st.floats(-6, 6), min_size=1, max_size=12))
def test_is_the_area_between_distribution_functions(sample):
    """The integral of |F_m - Phi| by the trapezoidal rule."""
    grid = np.linspace(-9, 9, 20_001)
    empirical = (np.array(sample)[:, None] <= grid).mean(0)
    area = np.trapezoid(np.abs(empirical - norm.cdf(grid)), grid)
    assert float(w1(column(*sample))) == pytest.approx(area, abs=2e-3)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.floats(-5, 5))
def test_is_a_distance(sample, shift):
    """Not negative, blind to order and sign, and no further moved than the sample is."""
    d = float(w1(column(*sample)))
    assert d >= 0
    assert float(w1(column(*sample[::-1]))) == pytest.approx(d, abs=1e-9)
    assert float(w1(-column(*sample))) == pytest.approx(d, rel=1e-9, abs=1e-9)
    assert abs(float(w1(column(*sample) + shift)) - d) <= abs(shift) + 1e-6


@given(st.lists(st.floats(-4, 4), min_size=1, max_size=15), st.integers(1, 40))
def test_draws_against_scipy(sample, number):
    """Two samples of unequal size; draws and sample are mixed up nowhere."""
    drawn = np.random.default_rng(3).standard_normal(number)
    expected = wasserstein_distance(sample, drawn)
    assert float(w1(column(*sample), reference=Drawn(number, 3))) == pytest.approx(
        expected, abs=1e-9
    )


def test_columns_are_measured_apart():
    """As if each were alone."""
    x = torch.tensor([A, B, C], dtype=torch.float64).T
    assert w1(x).tolist() == pytest.approx([0.241080, 1.504008, 0.677885], abs=1e-6)


@pytest.mark.parametrize("reference", [None, Drawn(1000, 1)])
def test_padding_counts_for_nothing(reference):
    """Anywhere among the rows, whatever it holds, and inside vmap."""
    more = {} if reference is None else {"reference": reference}
    x = torch.tensor([*A, 1e9, -3.0, math.nan], dtype=torch.float64)[:, None]
    real = torch.tensor([True] * 5 + [False] * 3)
    order = torch.tensor([6, 0, 1, 7, 2, 3, 5, 4])
    expected = w1(column(*A), **more)
    assert torch.allclose(w1(x, real, **more), expected)
    assert torch.allclose(w1(x[order], real[order], **more), expected)
    both = vmap(lambda x, real: w1(x, real, **more))(
        torch.stack([x, x[order]]), torch.stack([real, real[order]])
    )
    assert torch.allclose(both[:, 0], expected.expand(2))


def test_far_samples_and_single_precision():
    """Where Phi is 1 to the last digit the distance is still the distance."""
    assert float(w1(column(40.0))) == pytest.approx(40.0, rel=1e-12)
    assert float(w1(torch.full((3, 1), -1e4))) == pytest.approx(1e4, rel=1e-9)


def test_large_samples_are_close():
    """Draws of N(0, 1) itself: about 1 / sqrt(m)."""
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((100_000, 2)))
    assert (w1(x) < 0.01).all()
