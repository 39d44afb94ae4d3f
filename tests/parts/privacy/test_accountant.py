"""Epsilon against formulas worked out here, apart from the accounting package."""

import math
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import comb, logsumexp
from scipy.stats import norm

from unalike import rng
from unalike.errors import ConfigError
from unalike.parts.participation.schedule import Participation, Phased, Sampled
from unalike.parts.privacy import accountant
from unalike.parts.privacy.accountant import Accountant, Guarantee, gaussian, sampled

DELTA = 1e-5


def exact(multiplier: float, times: int, delta: float) -> float:
    """Balle & Wang 2018, Theorem 8, solved for epsilon."""
    mu = math.sqrt(times) / multiplier

    def excess(e: float) -> float:
        return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta

    return float(brentq(excess, 0, 500, xtol=1e-12))


@pytest.mark.parametrize(("z", "times"), [(1.0, 1), (2.0, 1), (4.0, 10), (8.0, 100), (20.0, 300)])
def test_gaussian_by_the_theorem(z: float, times: int) -> None:
    assert gaussian(z, times, DELTA) == pytest.approx(exact(z, times, DELTA), rel=1e-6)


@pytest.mark.parametrize(("z", "times"), [(1.0, 1), (4.0, 10), (8.0, 100)])
def test_gaussian_is_a_little_better_than_renyi_by_hand(z: float, times: int) -> None:
    """Divergence T a / (2 z^2) of order a, converted by Canonne et al. 2020, Prop. 12."""
    a = np.linspace(1.05, 200, 20_000)
    rdp = times * a / (2 * z**2)
    renyi = (rdp + np.log1p(-1 / a) - np.log(DELTA * a) / (a - 1)).min()
    assert 0.85 * renyi < gaussian(z, times, DELTA) < renyi


def test_a_classical_number() -> None:
    """Standard deviation sqrt(2 ln(1.25/delta)) per unit is known to give epsilon = 1 at most."""
    z = math.sqrt(2 * math.log(1.25 / DELTA))
    assert 0.7 < gaussian(z, 1, DELTA) < 1


def theorem_9(q: float, z: float, times: int, delta: float) -> float:
    """Wang et al. 2019: the general bound for sampling without replacement, written out."""

    def one(a: int) -> float:
        e = [j / (2 * z**2) for j in range(a + 1)]
        terms = [0.0, math.log(q**2 * comb(a, 2) * min(4 * math.expm1(e[2]), 2 * math.exp(e[2])))]
        terms += [
            j * math.log(q) + math.log(2 * comb(a, j)) + (j - 1) * e[j] for j in range(3, a + 1)
        ]
        return float(logsumexp(terms)) / (a - 1)

    orders = range(2, 64)
    return min(times * one(a) + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a in orders)


def least_possible(q: float, z: float, delta: float) -> float:
    """Epsilon of one round that no analysis can undercut: a client that sends C, or -C instead.

    All others send zero and noise has standard deviation z C: the outputs are mixtures
    (1 - q) N(0, z^2) + q N(+-1, z^2).
    """

    def density(x: float, shift: float) -> float:
        return float((1 - q) * norm.pdf(x, 0, z) + q * norm.pdf(x, shift, z))

    def excess(e: float) -> float:
        def above(x: float) -> float:
            return max(density(x, 1.0) - math.exp(e) * density(x, -1.0), 0.0)

        return quad(above, -12 * z, 12 * z + 1, limit=400, points=[0, 1])[0] - delta

    return float(brentq(excess, 0, 50, xtol=1e-6))


def test_sampling_composes() -> None:
    """Also over many rounds between nothing and the cruder bound, and it grows."""
    bounds = [sampled(2.0, 100, 5, t, DELTA) for t in (1, 10, 100)]
    assert bounds == sorted(bounds)
    assert bounds[-1] <= theorem_9(0.05, 2.0, 100, DELTA) + 1e-9


def spent(
    promise: Guarantee, fraction: float = 1.0, n: int = 20, rounds: int = 10
) -> Callable[[int], float]:
    schedule = Sampled(Participation(fraction))
    return Accountant(promise, schedule, range(rounds), n, rng.stream(0, "cohort"))


def test_full_participation_is_a_plain_gaussian() -> None:
    """Replacement counts twice, leaving out once."""
    after = spent(Guarantee(4.0, DELTA))
    assert after(0) == pytest.approx(exact(2.0, 1, DELTA), rel=1e-6)
    assert after(9) == pytest.approx(exact(2.0, 10, DELTA), rel=1e-6)
    after = spent(Guarantee(4.0, DELTA, "zero_out"))
    assert after(9) == pytest.approx(exact(4.0, 10, DELTA), rel=1e-6)


@pytest.mark.parametrize(("n", "m", "z"), [(100, 10, 2.0), (50, 10, 4.0), (20, 10, 1.0)])
def test_one_round_lies_between_what_is_possible_and_a_cruder_bound(
    n: int, m: int, z: float
) -> None:
    """The lower end catches a sensitivity of C where replacement makes it 2 C."""
    found = spent(Guarantee(z, DELTA), m / n, n)(0)
    assert least_possible(m / n, z, DELTA) <= found <= theorem_9(m / n, z / 2, 1, DELTA) + 1e-9
    if n < 100:
        assert sampled(z, n, m, 1, DELTA) < least_possible(m / n, z, DELTA)


def test_samples_are_worth_less_and_only_for_replacement() -> None:
    small = spent(Guarantee(4.0, DELTA), 0.1)(9)
    assert small == pytest.approx(sampled(2.0, 20, 2, 10, DELTA))
    assert small < exact(2.0, 10, DELTA)
    left_out = spent(Guarantee(4.0, DELTA, "zero_out"), 0.1)(9)
    assert left_out == pytest.approx(exact(4.0, 10, DELTA), rel=1e-6)


def test_the_smaller_of_two_bounds_counts() -> None:
    """With most clients in every round the bound for samples is worse than that for all."""
    assert sampled(2.0, 20, 18, 10, DELTA) > exact(2.0, 10, DELTA)
    assert spent(Guarantee(4.0, DELTA), 0.9)(9) == pytest.approx(exact(2.0, 10, DELTA), rel=1e-6)


def test_local_privacy_counts_the_updates_of_the_busiest_client() -> None:
    """Who was sampled is no secret to the server, so sampling only makes updates rarer."""
    schedule, key = Sampled(Participation(0.3)), rng.stream(0, "cohort")
    after = Accountant(Guarantee(4.0, DELTA, local=True), schedule, range(10), 20, key)
    counts = np.zeros(20, dtype=int)
    for t in range(10):
        counts[schedule.plan(t, range(10), 20, key).ids] += 1
        assert after(t) == pytest.approx(exact(2.0, counts.max(), DELTA), rel=1e-6)
    assert counts.max() < 10
    assert after(0) == pytest.approx(exact(2.0, 1, DELTA), rel=1e-6)  # also when asked again


def test_local_privacy_counts_answers_only() -> None:
    """With two phases the second group answers first; nobody has sent twice after two rounds."""
    key = rng.stream(0, "cohort")
    after = Accountant(Guarantee(4.0, DELTA, local=True), Phased(2), range(10), 4, key)
    assert after(1) == pytest.approx(exact(2.0, 1, DELTA), rel=1e-6)


def test_who_sent_nothing_told_nothing() -> None:
    assert gaussian(1.0, 0, DELTA) == 0


def test_no_noise_promises_nothing() -> None:
    assert spent(Guarantee(0.0, DELTA))(3) == math.inf


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ModuleType:
        if name == "dp_accounting":
            raise ImportError(name)
        return import_module(name)

    monkeypatch.setattr(accountant, "import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install 'unalike\[dp\]'"):
        spent(Guarantee(1.0, DELTA))
    assert spent(Guarantee(0.0, DELTA))(0) == math.inf


@pytest.mark.parametrize("local", [True, False])
def test_the_promise_in_words(local: bool) -> None:
    said = Guarantee(1.0, 1e-5, local=local).meaning
    assert "(epsilon, 1e-05)-differential privacy" in said
    assert ("client's updates" in said) == local
    assert "not covered" in said
