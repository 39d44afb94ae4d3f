"""Dirichlet partitions against draws made apart from the partitioner."""

import numpy as np
import pytest
from pydantic import ValidationError

from unalike.errors import ConfigError
from unalike.federation import skew
from unalike.federation.partition.base import Partitioner
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.federation.partition.niid1 import Niid1

BALANCED = np.arange(60_000) % 10


def table(partitioner: Dirichlet, labels: np.ndarray = BALANCED, seed: int = 0) -> np.ndarray:
    owner = partitioner.assign(labels, 10, np.random.default_rng(seed))
    return np.bincount(owner * 10 + labels, minlength=partitioner.clients * 10).reshape(-1, 10)


@pytest.mark.parametrize(("seed", "emd"), [(0, 0.766439), (1, 0.939986), (42, 0.879688)])
def test_single_draws_have_the_published_emd(seed: int, emd: float) -> None:
    assert skew.emd(table(Dirichlet(alpha=0.5), seed=seed)) == pytest.approx(emd, abs=1e-3)


def test_counts_are_the_drawn_shares_to_within_one_example() -> None:
    shares = np.random.default_rng(3).dirichlet(np.full(10, 0.5), 10).T
    assert np.abs(table(Dirichlet(alpha=0.5), seed=3) - shares * 6000).max() < 1


def test_truncation_leaves_the_rest_to_the_last_client() -> None:
    shares = np.random.default_rng(3).dirichlet(np.full(10, 0.5), 10).T
    expected = np.floor(shares * 6000)
    expected[-1] += 6000 - expected.sum(axis=0)
    assert np.array_equal(table(Dirichlet(alpha=0.5, rounding="truncate"), seed=3), expected)


def test_a_full_client_gets_no_more_classes_when_balanced() -> None:
    counts = table(Dirichlet(alpha=0.1, balance=True), seed=1)
    held_before = np.cumsum(counts, axis=1) - counts
    assert (counts[held_before >= 6000] == 0).all()
    assert counts.sum(axis=1).max() < 6000 + 6000  # not full, and then one whole class


def test_balance_makes_sizes_more_even() -> None:
    def mean_gini(balance: bool) -> float:
        partitioner = Dirichlet(alpha=0.1, balance=balance)
        return float(np.mean([skew.measure(table(partitioner, seed=s)).gini for s in range(20)]))

    assert mean_gini(True) < mean_gini(False) - 0.03


def test_balance_survives_shares_that_underflow() -> None:
    counts = table(Dirichlet(alpha=1e-6, balance=True, clients=20))
    assert np.array_equal(counts.sum(axis=0), np.full(10, 6000))


def test_small_alpha_reaches_the_supremum() -> None:
    draws = [skew.emd(table(Dirichlet(alpha=1e-5, clients=20), seed=s)) for s in range(60)]
    assert np.mean(draws) == pytest.approx(2 * (1 - 1 / 20) * (1 - 1 / 10), abs=0.03)


def test_per_client_sizes_are_equal_and_mixes_follow_the_draw() -> None:
    clients = 600
    counts = table(Dirichlet(alpha=0.5, clients=clients, per="client"), seed=4)
    wanted = np.random.default_rng(4).dirichlet(np.full(10, 0.5), clients)
    assert (counts.sum(axis=1) == 100).all()
    assert np.array_equal(counts.sum(axis=0), np.full(10, 6000))
    # Fitting to the class sizes moves mixes a little; independent draws differ by about 1.2.
    assert np.abs(counts / 100 - wanted).sum(axis=1).mean() < 0.15


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 100.0])
def test_per_client_mean_entropy_is_that_of_the_dirichlet(alpha: float) -> None:
    from scipy.special import digamma

    counts = table(Dirichlet(alpha=alpha, clients=300, per="client"), seed=2)
    expected = digamma(10 * alpha + 1) - digamma(alpha + 1)
    assert skew.measure(counts).entropy == pytest.approx(expected, abs=0.08)


def test_a_pooled_prior_divides_the_concentration() -> None:
    pooled = table(Dirichlet(alpha=5.0, clients=300, per="client", prior="pooled"))
    uniform = table(Dirichlet(alpha=0.5, clients=300, per="client"))
    assert skew.emd(pooled) == pytest.approx(skew.emd(uniform), abs=0.05)


def test_size_spread_makes_sizes_lognormal() -> None:
    even = Dirichlet(clients=300, per="client", size_spread=1.0)
    sizes = table(even).sum(axis=1)
    assert np.log(sizes).std() == pytest.approx(1.0, abs=0.15)


def test_fewest_examples_are_kept_without_changing_the_classes() -> None:
    counts = table(Dirichlet(alpha=0.01, clients=50, min_size=100))
    assert counts.sum(axis=1).min() == 100
    assert np.array_equal(counts.sum(axis=0), np.full(10, 6000))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"per": "client", "balance": True}, "balance"),
        ({"per": "client", "rounding": "truncate"}, "rounding"),
        ({"prior": "pooled"}, "prior"),
        ({"size_spread": 1.0}, "size_spread"),
    ],
)
def test_a_setting_without_effect_is_refused(given: dict, name: str) -> None:
    with pytest.raises(ConfigError, match=f"dirichlet: {name} has no meaning"):
        Dirichlet(**given)


@pytest.mark.parametrize("given", [{"alpha": 0.0}, {"alpha": float("inf")}, {"clients": 0}])
def test_values_out_of_range_are_refused(given: dict) -> None:
    with pytest.raises(ValidationError):
        Dirichlet(**given)


@pytest.mark.parametrize("kind", [Dirichlet, Niid1])
def test_a_concentration_without_a_finite_sum_is_refused(kind: type[Partitioner]) -> None:
    """Ten times 1e308 is infinite; at the bound shares are even, to the last example."""
    with pytest.raises(ValidationError, match="less than or equal to 1000000000000"):
        kind(clients=10, alpha=1e308)
    labels = np.arange(60_000) % 10
    owner = kind(clients=10, alpha=1e12).assign(labels, 10, np.random.default_rng(0))
    assert np.bincount(owner * 10 + labels, minlength=100).tolist() == [600] * 100
