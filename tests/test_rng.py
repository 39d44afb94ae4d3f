"""Keyed random numbers: uniform, independent, and the same wherever they are drawn."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.func import vmap

from unalike import rng

KEYS = rng.fold_in(rng.key(1), torch.arange(2000))


def test_splitmix64_reference_values() -> None:
    """The first outputs of the published generator for seed 1234567, as unsigned integers."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    states = 1234567 + torch.arange(1, 5) * rng.GOLDEN
    assert [word % 2**64 for word in rng.mixed(states).tolist()] == expected


def test_uniform_numbers_are_uniform() -> None:
    """Kolmogorov-Smirnov and chi-square, at odds of one in a thousand."""
    u = rng.uniform(rng.key(3), 20_000).numpy()
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.chisquare(np.histogram(u, 64, (0, 1))[0]).pvalue > 1e-3


def test_normal_numbers_are_normal() -> None:
    """Also in the tails, which are finite."""
    z = rng.normal(rng.key(3), 100, 200).numpy().ravel()
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert 3.3 < np.abs(z).max() < 6
    assert rng.normal(rng.key(3), 100, 200).shape == (100, 200)


def test_neighbouring_keys_are_independent() -> None:
    """First draws of consecutive keys, and consecutive draws of one key."""
    first = torch.stack([rng.uniform(k, 3) for k in KEYS]).numpy()
    assert stats.kstest(first[:, 0], "uniform").pvalue > 1e-3
    for a, b in (
        (first[:-1, 0], first[1:, 0]),
        (first[:, 0], first[:, 1]),
        (first[:, 1], first[:, 2]),
    ):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / math.sqrt(len(a))


def test_bits_are_balanced() -> None:
    """Each of the 64 is one half of the time."""
    words = rng.bits(rng.key(9), 4000)
    for i in range(64):
        share = float(((words >> i) & 1).double().mean())
        assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(4000)


def test_purposes_and_seeds_are_different_streams() -> None:
    """No two of them agree, and seeds 0 and 1 are not shifted copies of each other."""
    names = ("cohort", "batches", "init", "noise", "faults", "server", "survey", "evaluation")
    roots = [int(rng.stream(seed, name)) for seed in range(20) for name in names]
    assert len(set(roots)) == len(roots)
    a, b = (set(rng.bits(rng.key(s), 1000).tolist()) for s in (0, 1))
    assert not a & b


def test_a_draw_is_a_prefix_of_a_longer_one() -> None:
    """So that a padded batch sees the same noise on its real rows."""
    key = rng.key(5)
    assert torch.equal(rng.bits(key, 10), rng.bits(key, 99)[:10])
    assert torch.equal(rng.normal(key, 3, 4), rng.normal(key, 8, 4)[:3])


def test_many_numbers_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in (rng.uniform, rng.normal):
        whole = draw(rng.key(3), 7, 11)
        with monkeypatch.context() as m:
            m.setattr(rng, "PART", 5)
            assert torch.equal(draw(rng.key(3), 7, 11), whole)


def test_the_same_inside_vmap_and_out() -> None:
    """Bit for bit, for every function."""
    keys = KEYS[:7]
    for f in (
        lambda k: rng.fold_in(k, 3),
        lambda k: rng.fold_in(k, torch.tensor(3)),
        lambda k: rng.uniform(k, 5),
        lambda k: rng.uniform(k),
        lambda k: rng.normal(k, 2, 3),
        lambda k: rng.bits(k, 4),
        lambda k: rng.permutation(k, 9),
    ):
        assert torch.equal(vmap(f)(keys), torch.stack([f(k) for k in keys]))


def test_folding_broadcasts() -> None:
    """Over keys and over numbers."""
    numbers = torch.arange(4)
    one = torch.stack([rng.fold_in(rng.key(2), i) for i in range(4)])
    assert torch.equal(rng.fold_in(rng.key(2), numbers), one)
    assert torch.equal(rng.client(rng.key(2), 7, numbers)[2], rng.client(rng.key(2), 7, 2))


@given(st.integers(1, 200), st.integers(0, 10**6))
def test_a_permutation_is_one(n: int, seed: int) -> None:
    """Every number once."""
    assert rng.permutation(rng.key(seed), n).sort().values.tolist() == list(range(n))


def test_permutations_are_fair() -> None:
    """All 24 orders of four things come up alike, in a stack of keys."""
    orders = torch.argsort(rng.bits(KEYS, 4), 1)
    code = (orders * torch.tensor([64, 16, 4, 1])).sum(1)
    counts = np.unique(code.numpy(), return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("seed", [0, 1, -1, 2**62, -(2**62)])
def test_any_seed_will_do(seed: int) -> None:
    """Sums wrap around and are no error."""
    assert 0 <= float(rng.uniform(rng.stream(seed, "noise"))) < 1


def test_numbers_of_the_streams() -> None:
    """Published results were drawn with these: a name may be added, no number changed."""
    assert {s.name: int(s) for s in rng.Stream} == {
        "CHAIN_START": -1,
        "DROPOUT": 0,
        "TRANSFORM": 1,
        "METHOD": 2,
        "CHAIN": 3,
        "TRAINING": 9,
        "JUDGING": 10,
        "LATENTS": 11,
        "RELEASE": 12,
        "DOWNLOAD": 13,
        "NEIGHBOURS": 14,
        "PRETEXT": 21,
    }
    assert {s.name: int(s) for s in rng.ClientStream} == {"BATCHES": -1, "MODEL": 7, "CHANNEL": 11}
    assert rng.fold_in(rng.key(3), rng.Stream.LATENTS) == rng.fold_in(rng.key(3), 11)


def test_a_sample_is_the_start_of_a_permutation() -> None:
    k = rng.key(3)
    assert torch.equal(rng.sample(k, 40, 7), rng.permutation(k, 40)[:7].sort().values)
    assert torch.equal(rng.sample(k, 5, 5), torch.arange(5))


def test_a_sample_of_very_many_is_uniform_and_without_repetition() -> None:
    """Each tenth of 200,000 numbers is hit as often as any; 3,000 draws of 100 each."""
    n, m = 200_000, 100
    drawn = torch.stack([rng.sample(rng.key(i), n, m) for i in range(3000)])
    assert drawn.shape == (3000, m)
    assert (drawn.diff(dim=1) > 0).all()  # sorted and different
    assert (drawn[:, 0] >= 0).all()
    assert (drawn[:, -1] < n).all()
    tenths = torch.bincount(drawn.flatten() // (n // 10), minlength=10).double()
    expected = 3000 * m / 10
    assert ((tenths - expected).abs() < 5 * expected**0.5).all()
    # Two draws share m^2 / n numbers on average.
    shared = sum(len(np.intersect1d(drawn[2 * i], drawn[2 * i + 1])) for i in range(1500)) / 1500
    assert abs(shared - m * m / n) < 0.03
