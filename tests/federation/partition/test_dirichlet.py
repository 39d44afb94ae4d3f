"""Dirichlet partitions against draws made apart from the partitioner."""

import numpy as np
import pytest
from partitions import in_order, owners, table
from pydantic import ValidationError
from scipy.stats import beta

from unalike.errors import ConfigError
from unalike.federation import skew
from unalike.federation.partition.base import Partitioner
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.federation.partition.dirichlet_emd import dirichlet_at, emd_of_mixes
from unalike.federation.partition.niid1 import Niid1


@pytest.mark.parametrize(("seed", "emd"), [(0, 0.766439), (1, 0.939986), (42, 0.879688)])
def test_single_draws_have_the_published_emd(seed: int, emd: float) -> None:
    assert skew.emd(table(Dirichlet(alpha=0.5), seed=seed)) == pytest.approx(emd, abs=1e-3)


def test_counts_are_the_drawn_shares_to_within_one_example() -> None:
    shares = np.random.default_rng(3).dirichlet(np.full(10, 0.5), 10).T
    assert np.abs(in_order(Dirichlet(alpha=0.5), seed=3) - shares * 6000).max() < 1


def test_truncation_leaves_the_rest_to_one_client() -> None:
    shares = np.random.default_rng(3).dirichlet(np.full(10, 0.5), 10).T
    expected = np.floor(shares * 6000)
    expected[-1] += 6000 - expected.sum(axis=0)
    assert np.array_equal(in_order(Dirichlet(alpha=0.5, rounding="truncate"), seed=3), expected)


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
    counts = in_order(Dirichlet(alpha=0.5, clients=clients, per="client"), seed=4)
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
        ({"per": "client", "keep_one": True}, "keep_one"),
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
    owner = owners(kind(clients=10, alpha=1e12), labels)
    assert np.bincount(owner * 10 + labels, minlength=100).tolist() == [600] * 100


@pytest.mark.parametrize("concentration", [[0.5] * 10, [50.0] * 10, [0.02, 1.0, 7.0], [3e6, 1e6]])
def test_the_mean_emd_of_mixes_is_an_integral(concentration: list[float]) -> None:
    """By quadrature of |x - mean| over each class's Beta distribution."""
    total = sum(concentration)
    parts = []
    for a in concentration:
        law, mean = beta(a, total - a), a / total
        # E|X - m| = 2 m (F_a,b(m) - F_a+1,b(m)), the integral in closed form by scipy's own F.
        parts.append(2 * mean * (law.cdf(mean) - beta(a + 1, total - a).cdf(mean)))
    assert emd_of_mixes(np.array(concentration)) == pytest.approx(sum(parts), rel=1e-5)


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.3, 2.0, 1e6])
def test_quantiles_of_uniform_numbers_are_dirichlet_draws(alpha: float) -> None:
    """Moments of many draws: the mean 1/K and the variance (1 - 1/K)/K/(K alpha + 1)."""
    u = np.random.default_rng(0).random((40_000, 5))
    draws = dirichlet_at(np.full(5, alpha), u)
    assert np.isfinite(draws).all()
    assert draws.sum(axis=1) == pytest.approx(1)
    assert draws.mean(axis=0) == pytest.approx(0.2, abs=0.01)
    assert draws.var(axis=0) == pytest.approx(0.16 / (5 * alpha + 1), rel=0.05)


def test_a_draw_moves_with_its_concentration_alone() -> None:
    """The same random numbers: who holds most of a class stays so until all are alike."""
    u = np.random.default_rng(1).random((10, 20))
    one, other = (dirichlet_at(np.full(20, alpha), u) for alpha in (0.1, 2.0))
    assert np.array_equal(one.argmax(axis=1), other.argmax(axis=1))


@pytest.mark.parametrize("given", [{}, {"balance": True}, {"per": "client"}, {"keep_one": True}])
def test_every_draw_is_brought_to_the_target(given: dict) -> None:
    reached = [
        skew.emd(table(Dirichlet(clients=20, target=1.3, **given), seed=s)) for s in range(10)
    ]
    assert reached == pytest.approx([1.3] * 10, abs=2e-3)


def test_draws_brought_to_a_target_differ() -> None:
    one, other = (table(Dirichlet(target=1.0), seed=s) for s in (0, 1))
    assert not np.array_equal(np.sort(one, axis=0), np.sort(other, axis=0))


def test_one_example_of_each_class_is_kept() -> None:
    counts = table(Dirichlet(clients=20, alpha=0.05, keep_one=True))
    assert counts.min() == 1
    assert np.array_equal(counts.sum(axis=0), np.full(10, 6000))


def test_a_target_out_of_reach_says_what_can_be_done() -> None:
    with pytest.raises(ConfigError, match=r"EMD of 1\.7 than .* 5 clients .* ask for less"):
        table(Dirichlet(clients=5, target=1.7))
    with pytest.raises(ConfigError, match=r"ask for more, or use more examples"):
        table(Dirichlet(clients=20, target=0.01), np.arange(60) % 10)


def test_a_target_and_a_concentration_are_too_much() -> None:
    with pytest.raises(ConfigError, match=r"target = 1 sets the concentration, so alpha = 0\.1"):
        Dirichlet(target=1.0, alpha=0.1)
