"""Measures of skew against numbers worked out by hand and against their defining properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from unalike.errors import ConfigError, DataError
from unalike.federation import skew

UNEQUAL = np.array([[10, 0, 0], [5, 5, 10], [0, 30, 20]])

tables = st.tuples(st.integers(1, 8), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 40)).map(
        lambda counts: counts + (counts.sum(axis=1, keepdims=True) == 0)
    )
)
DISTANCES = [
    skew.emd_per_client,
    skew.kl_per_client,
    skew.js_per_client,
    skew.hellinger_per_client,
]


def test_emd_of_unequal_classes() -> None:
    assert skew.emd_per_client(UNEQUAL) == pytest.approx([1.625, 0.375, 0.375])
    assert skew.emd(UNEQUAL) == pytest.approx(0.531250)
    assert skew.emd(UNEQUAL, weighted=False) == pytest.approx(0.791667, abs=1e-6)
    assert skew.emd(UNEQUAL, "uniform") == pytest.approx(0.666667, abs=1e-6)


@pytest.mark.parametrize(("seed", "emd"), [(0, 0.766439), (1, 0.939986), (42, 0.879688)])
def test_emd_of_dirichlet_draws(seed: int, emd: float) -> None:
    shares = np.random.default_rng(seed).dirichlet(np.full(10, 0.5), 10).T
    assert skew.emd(shares) == pytest.approx(emd, abs=1e-6)


@pytest.mark.parametrize(("seed", "emd"), [(0, 0.817343), (1, 0.952978), (42, 0.940690)])
def test_emd_of_dirichlet_draws_of_the_legacy_generator(seed: int, emd: float) -> None:
    shares = np.random.RandomState(seed).dirichlet(np.full(10, 0.5), 10).T
    assert skew.emd(shares) == pytest.approx(emd, abs=1e-6)


def test_the_unweighted_mean_of_dirichlet_draws() -> None:
    rng = np.random.default_rng(7)
    draws = [skew.emd(rng.dirichlet(np.full(10, 0.5), 10).T, weighted=False) for _ in range(2000)]
    assert np.mean(draws) == pytest.approx(0.875, abs=0.004)


@given(counts=tables)
def test_divergences_agree_with_scipy(counts: np.ndarray) -> None:
    mixes = counts / counts.sum(axis=1, keepdims=True)
    pooled = counts.sum(axis=0) / counts.sum()
    seen = pooled > 0
    expected_kl = [entropy(p[seen], pooled[seen]) for p in mixes]
    expected_js = [jensenshannon(p, pooled) ** 2 for p in mixes]
    assert skew.kl_per_client(counts) == pytest.approx(expected_kl, abs=1e-12)
    assert skew.js_per_client(counts) == pytest.approx(np.nan_to_num(expected_js), abs=1e-9)
    assert skew.entropy_per_client(counts) == pytest.approx(entropy(mixes, axis=1), abs=1e-12)
    overlap = np.sqrt(mixes * pooled).sum(axis=1)
    assert skew.hellinger_per_client(counts) ** 2 == pytest.approx(1 - overlap, abs=1e-12)


@given(counts=tables)
def test_measures_stay_in_their_range(counts: np.ndarray) -> None:
    classes = counts.shape[1]
    measured = skew.measure(counts)
    assert 0 <= measured.emd <= 2
    assert measured.emd_uniform <= 2 - 2 / classes + 1e-12
    assert 0 <= measured.kl < np.inf
    assert 0 <= measured.js <= np.log(2) + 1e-12
    assert 0 <= measured.hellinger <= 1
    assert 0 <= measured.entropy <= np.log(classes) + 1e-12
    assert 0 <= measured.gini < 1
    # Pinsker, and Hellinger against total variation: relations between measures.
    total_variation = measured.emd_per_client / 2
    assert (total_variation <= np.sqrt(measured.kl_per_client / 2) + 1e-9).all()
    assert (measured.hellinger_per_client**2 <= total_variation + 1e-9).all()


@given(counts=tables)
def test_distances_are_zero_for_identical_mixes_only(counts: np.ndarray) -> None:
    mixes = counts / counts.sum(axis=1, keepdims=True)
    pooled = counts.sum(axis=0) / counts.sum()
    identical = np.abs(mixes - pooled).max(axis=1) < 1e-12
    for distance in DISTANCES:
        assert np.array_equal(distance(counts) < 1e-10, identical)


@given(counts=tables, seed=st.integers(0, 99))
def test_the_order_of_clients_and_classes_does_not_matter(counts: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    clients, classes = (rng.permutation(size) for size in counts.shape)
    before = skew.measure(counts).as_dict()
    after = skew.measure(counts[clients][:, classes]).as_dict()
    assert after == pytest.approx(before, abs=1e-12)
    for distance in DISTANCES:
        assert distance(counts[clients]) == pytest.approx(distance(counts)[clients], abs=1e-12)


@given(counts=tables, factor=st.integers(2, 9))
def test_distances_do_not_depend_on_the_amount_of_data(counts: np.ndarray, factor: int) -> None:
    before, after = skew.measure(counts).as_dict(), skew.measure(counts * factor).as_dict()
    for name in ("emd", "kl", "js", "hellinger", "entropy", "gini"):
        assert after[name] == pytest.approx(before[name], abs=1e-12)


def test_group_emd_by_hand() -> None:
    """Pooled 15:35:30 of 80; the groups hold 15:5:10 of 30 and 0:30:20 of 50."""
    found = skew.group_emd(UNEQUAL, [[0, 1], [2]])
    first = abs(15 / 30 - 15 / 80) + abs(5 / 30 - 35 / 80) + abs(10 / 30 - 30 / 80)
    assert found.whole == pytest.approx([first, 0.375])
    assert found.mean == pytest.approx((30 * first + 50 * 0.375) / 80)
    apart = 15 / 30 + abs(5 / 30 - 30 / 50) + abs(10 / 30 - 20 / 50)
    assert found.between == pytest.approx(np.array([[0, apart], [apart, 0]]))
    assert found.mean_between == pytest.approx(apart)


@given(counts=tables, seed=st.integers(0, 99))
def test_groups_of_one_are_clients_and_the_group_of_all_is_the_whole(
    counts: np.ndarray, seed: int
) -> None:
    alone = skew.group_emd(counts, [[k] for k in range(len(counts))])
    assert alone.whole == pytest.approx(skew.emd_per_client(counts), abs=1e-12)
    assert alone.mean == pytest.approx(skew.emd(counts), abs=1e-12)
    everyone = np.random.default_rng(seed).permutation(len(counts))
    whole = skew.group_emd(counts, [everyone])
    assert whole.whole == pytest.approx([0], abs=1e-12)
    assert whole.mean_between == 0
    # A partition into groups is never more skewed than its clients.
    halves = [half for half in np.array_split(everyone, 2) if len(half)]
    assert skew.group_emd(counts, halves).mean <= alone.mean + 1e-12


def test_groups_may_overlap() -> None:
    ring = [[(k - 1) % 3, k, (k + 1) % 3] for k in range(3)]
    assert skew.group_emd(UNEQUAL, ring).whole == pytest.approx([0, 0, 0])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0], [3]], r"group 1 must name some of the clients 0 to 2, got \[3\]"),
        ([[]], r"group 0 must name some of the clients 0 to 2, got \[\]"),
        ([[-1]], "clients 0 to 2"),
        ([], "at least one group"),
    ],
)
def test_groups_of_nobody_are_refused(groups: list[list[int]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        skew.group_emd(UNEQUAL, groups)


def test_as_dict_holds_plain_floats_only() -> None:
    measured = skew.measure(UNEQUAL).as_dict()
    assert {type(value) for value in measured.values()} == {float}
    assert measured["clients"] == 3
    assert measured["smallest"] == 10
    assert measured["largest"] == 50
    assert "emd_per_client" not in measured


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.array([1, 2]), r"a table \[clients, classes\], got shape \(2,\)"),
        (np.zeros((0, 3)), "got shape"),
        (np.array([[1, -1]]), "not negative"),
        (np.array([[1.0, np.nan]]), "finite"),
        (np.array([[1, 1], [0, 0]]), "client 1 holds no example"),
    ],
)
def test_malformed_counts_are_refused(counts: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        skew.measure(counts)


def test_an_unknown_reference_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'pooled'"):
        skew.emd(UNEQUAL, "pool")  # type: ignore[arg-type]
