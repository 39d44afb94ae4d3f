"""FedEP: label mixtures, their divergences from the pooled one, and the weights.

Three clients over labels 0 to 9: A holds 10 of each, B holds 50, 30, 20 of labels 0, 1, 2 and C
10, 30, 60 of labels 7, 8, 9; or a fraction of those counts with the same proportions.
"""

import math

import numpy as np
import pytest
import torch
from federations import asked, cohort
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture
from torch import Tensor

from unalike.algorithms.fedep import EntropyPool, FedEp
from unalike.parts.mixing.entropy_pool import divergences, pool
from unalike.parts.mixing.label_mixture import LabelMixture, fit, select

TEN = torch.arange(10)
EQUAL, SKEWED = torch.tensor([100.0, 100, 100]), torch.tensor([100.0, 60, 40])
A = np.repeat(np.arange(10), 10)
B = np.repeat([0, 1, 2], [50, 30, 20])
C = np.repeat([7, 8, 9], [10, 30, 60])


def mixtures(*clients: list[tuple[float, float, float]]) -> Tensor:
    """Rows (pi, mu, variance) of several clients, padded with pi = 0."""
    out = torch.zeros(len(clients), max(len(c) for c in clients), 3, dtype=torch.float64)
    out[..., 2] = 1.0
    for i, rows in enumerate(clients):
        out[i, : len(rows)] = torch.tensor(rows, dtype=torch.float64)
    return out


ONE_PART = mixtures([(1, 4.5, 8.25)], [(1, 0.7, 0.61)], [(1, 8.5, 0.45)])
LISTED = mixtures([(1, 4.5, 8.26)], [(1, 0.7, 0.62)], [(1, 8.5, 0.46)])
SELECTED = mixtures(
    [
        (0.098571, 0, 0.01),
        (0.158920, 1.446444, 0.301900),
        (0.485018, 4.5, 2.487214),
        (0.158920, 7.553556, 0.301900),
        (0.098571, 9, 0.01),
    ],
    [(0.497713, 0, 0.01), (0.502287, 1.393625, 0.257792)],
    [(0.402021, 7.756283, 0.204371), (0.597979, 9, 0.01)],
)

READINGS = [
    ("raw", ONE_PART, EQUAL, (0.478698, 19.288460, 26.995017), (0.010237, 0.412480, 0.577283)),
    ("raw", ONE_PART, SKEWED, (0.277896, 15.457196, 28.402055), (0.006296, 0.350208, 0.643495)),
    (
        "normalised",
        ONE_PART,
        EQUAL,
        (0.476706, 20.460632, 28.635662),
        (0.009616, 0.412737, 0.577646),
    ),
    (
        "normalised",
        ONE_PART,
        SKEWED,
        (0.271868, 16.514318, 30.242292),
        (0.005781, 0.351156, 0.643063),
    ),
    ("floor", ONE_PART, EQUAL, (0.387818, 1.105147, 1.113389), (0.148797, 0.424020, 0.427183)),
    ("floor", ONE_PART, SKEWED, (0.220987, 1.009481, 1.386861), (0.084432, 0.385691, 0.529877)),
    ("listing", LISTED, EQUAL, (1.704611, 1.983647, 1.939997), (0.302867, 0.352444, 0.344689)),
    ("listing", LISTED, SKEWED, (1.073411, 1.889274, 2.353300), (0.201921, 0.355395, 0.442684)),
]


@pytest.mark.parametrize(("mode", "theta", "n", "kl", "alpha"), READINGS)
def test_readings(mode: str, theta: Tensor, n: Tensor, kl: tuple, alpha: tuple) -> None:
    """Divergences and weights of every reading, equal and unequal sizes."""
    found = divergences(theta, n, TEN, mode)
    assert found.tolist() == pytest.approx(kl, abs=1e-6)
    assert pool(found, n).tolist() == pytest.approx(alpha, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "kl", "alpha"),
    [
        (EQUAL, (0.813343, 0.106530, 1.422382), (0.347248, 0.045482, 0.607270)),
        (SKEWED, (0.653991, 0.172586, 1.437260), (0.288886, 0.076236, 0.634878)),
    ],
)
def test_listing_over_the_aggregators_own_labels(n: Tensor, kl: tuple, alpha: tuple) -> None:
    """Client B aggregates and knows labels 0 to 2 only."""
    found = divergences(LISTED, n, torch.arange(3), "listing")
    assert found.tolist() == pytest.approx(kl, abs=1e-6)
    assert pool(found, n).tolist() == pytest.approx(alpha, abs=1e-6)


@pytest.mark.parametrize(
    ("mode", "n", "kl", "alpha"),
    [
        (
            "normalised",
            EQUAL,
            (0.129443, 49.655751, 64.346464),
            (0.001134, 0.435074, 0.563792),
        ),
        ("floor", EQUAL, (0.102037, 1.223005, 1.198444), (0.040435, 0.484649, 0.474916)),
        ("listing", EQUAL, (1.862055, 2.454276, 2.383457), (0.277927, 0.366321, 0.355751)),
        ("floor", SKEWED, None, (0.023714, 0.414439, 0.561847)),
        ("listing", SKEWED, None, (0.187865, 0.359708, 0.452428)),
    ],
)
def test_mixtures_selected_by_bic(mode: str, n: Tensor, kl: tuple | None, alpha: tuple) -> None:
    """The parameters are rounded to six digits, so the results are good to four."""
    found = divergences(SELECTED, n, TEN, mode)
    if kl is not None:
        assert found.tolist() == pytest.approx(kl, rel=1e-4)
    assert pool(found, n).tolist() == pytest.approx(alpha, abs=1e-4)


@pytest.mark.parametrize(
    ("sizes", "kl", "alpha"),
    [
        ([90, 10], (0.125405, 2.238035), (0.053060, 0.946940)),
        ([50, 50], None, (0.5, 0.5)),
        ([70, 20, 10], None, (0.095976, 0.390933, 0.513091)),
    ],
)
def test_size_inversion_of_the_listing(sizes: list, kl: tuple | None, alpha: tuple) -> None:
    """Identical clients: the listing gives most to the smallest, the formulas p_k."""
    n = torch.tensor(sizes, dtype=torch.float64)
    theta = mixtures(*[[(1, 4.5, 8.26)]] * len(sizes))
    found = divergences(theta, n, TEN, "listing")
    if kl is not None:
        assert found.tolist() == pytest.approx(kl, abs=1e-6)
    assert pool(found, n).tolist() == pytest.approx(alpha, abs=1e-6)
    for mode in ("raw", "normalised", "floor"):
        none = divergences(theta, n, TEN, mode)
        assert none.tolist() == pytest.approx([0] * len(sizes), abs=1e-12)
        assert pool(none, n).tolist() == pytest.approx((n / n.sum()).tolist())


@pytest.mark.parametrize(
    ("labels", "mean", "variance"), [(A, 4.5, 8.25), (B, 0.7, 0.61), (C, 8.5, 0.45)]
)
def test_a_single_part_is_the_mean_and_variance(
    labels: np.ndarray, mean: float, variance: float
) -> None:
    """The listing adds 0.01 to the variance."""
    y, count = np.unique(labels, return_counts=True)
    theta, _ = fit(y.astype(float), count.astype(float), 1)
    assert theta[0].tolist() == pytest.approx([1, mean, variance], abs=1e-9)
    listed = asked(LabelMixture(rho=0.1, listing=True), labels, 10)
    assert listed[0].tolist() == pytest.approx([1, mean, variance + 0.01], abs=1e-6)


def likelihood(labels: np.ndarray, theta: np.ndarray) -> float:
    """The log-likelihood of a mixture, example by example."""
    pi, mu, s2 = theta.T
    z = labels[:, None] - mu
    return float(np.log((pi * np.exp(-(z**2) / (2 * s2)) / np.sqrt(2 * np.pi * s2)).sum(1)).sum())


@pytest.mark.parametrize("labels", [A, B, C, np.array([0] * 7 + [4] * 2 + [5] * 9 + [9])])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_likelihood_is_at_least_scikit_learns(labels: np.ndarray, parts: int) -> None:
    """Which has the same 0.01 on every variance, 10 restarts, and examples instead of counts."""
    y, count = np.unique(labels, return_counts=True)
    theta, claimed = fit(y.astype(float), count.astype(float), parts)
    assert claimed == pytest.approx(likelihood(labels, theta), abs=1e-6 * len(labels))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence of a degenerate start
        theirs = GaussianMixture(parts, reg_covar=0.01, n_init=10, tol=1e-6, random_state=0)
        theirs.fit(labels[:, None].astype(float))  # of integers it computes another likelihood
    assert claimed >= theirs.score(labels[:, None].astype(float)) * len(labels) - 1e-3


def test_bic_chooses_as_scikit_learn_did() -> None:
    """Five parts for A, two for B and C; the optimum found is no worse than its."""
    for labels, theirs, parts in zip((A, B, C), SELECTED.numpy(), (5, 2, 2), strict=True):
        theta = select(labels)
        assert len(theta) == parts
        assert likelihood(labels, theta) >= likelihood(labels, theirs[:parts]) - 1e-3
        assert np.all(np.diff(theta[:, 1]) >= 0)


@pytest.mark.parametrize(
    ("rho", "classes", "rows"), [(0.5, 10, 5), (0.7, 10, 7), (0.3, 10, 3), (0.1, 3, 1)]
)
def test_size_of_the_answer(rho: float, classes: int, rows: int) -> None:
    """ceil(rho L) rows for everybody, so that the answers stack."""
    for labels in (np.zeros(4, dtype=int), np.arange(classes)):
        answer = asked(LabelMixture(rho), labels, classes)
        assert answer.shape == (rows, 3)
        assert answer[:, 0].sum() == pytest.approx(1, abs=1e-6)
        assert (answer[:, 2] > 0).all()


def answers(*clients: np.ndarray, classes: int = 10, mode: str = "floor") -> dict[str, Tensor]:
    """The survey of some clients."""
    questions = EntropyPool(classes, FedEp(mode=mode)).survey
    return {
        q.name: torch.from_numpy(np.stack([asked(q, y, classes) for y in clients]))
        for q in questions
    }


@pytest.mark.parametrize("mode", ["floor", "raw", "normalised", "listing"])
def test_single_label_clients_have_finite_weights(mode: str) -> None:
    """Far tails of e^-4000 are zero as numbers but not as logarithms."""
    lonely = [np.full(10, 0), np.full(10, 9), np.full(10, 4), np.arange(10)]
    survey = answers(*lonely, mode=mode)
    p, *_ = EntropyPool(10, FedEp(mode=mode)).weights((), cohort([10] * 4, survey=survey))
    assert torch.isfinite(p).all()
    assert (p >= 0).all()
    assert float(p.sum()) == pytest.approx(1)
    if mode != "listing":
        assert int(p.argmin()) == 3  # the uniform client is nearest to the pool


def test_divergences_of_raw_densities_never_make_a_weight_negative() -> None:
    """A client whose density on the labels sums to more than the pool's has a negative one."""
    theta = mixtures([(1, 4.5, 50.0)], [(1, 4.5, 8.25)])  # half of the first lies outside 0..9
    n = torch.tensor([9.0, 1.0])
    found = divergences(theta, n, TEN, "raw")
    assert float(found.min()) < 0
    assert float(pool(found, n).min()) >= 0


def test_what_is_recorded() -> None:
    """Each client's divergence and weight, the latter before it is renormalised over a cohort."""
    rule, survey = EntropyPool(10, FedEp()), answers(A, B, C)
    whole = rule.weights((), cohort([100, 100, 100], survey=survey))
    some = rule.weights((), cohort([100, 100], [0, 2], n=3, survey=survey))
    assert torch.allclose(whole.logged["alpha"], whole.p)
    assert torch.allclose(some.logged["alpha"], whole.p[[0, 2]])
    n = torch.full((3,), 100.0)
    kl = divergences(survey["label_mixture"], n, TEN)
    assert torch.allclose(some.logged["divergence"], kl[[0, 2]])


def test_cohort_gets_its_part_of_everybodys_weights() -> None:
    """Pooled over all clients a server knows, then renormalised over those that answered."""
    survey = answers(A, B, C)
    whole, *_ = EntropyPool(10, FedEp()).weights((), cohort([100, 100, 100], survey=survey))
    some, *_ = EntropyPool(10, FedEp()).weights((), cohort([100, 100], [0, 2], n=3, survey=survey))
    assert torch.allclose(some, whole[[0, 2]] / whole[[0, 2]].sum())


def test_jensen_shannon_by_hand() -> None:
    """Two clients on two labels, sizes 1 to 1: P = (0.5, 0.5), P_1 = (0.75, 0.25) and mirrored.

    The middle is (0.625, 0.375): half of 0.5 ln(0.5/0.625) + 0.5 ln(0.5/0.375)
    + 0.75 ln(0.75/0.625) + 0.25 ln(0.25/0.375).
    """
    # One part at 0 and one at 1, so narrow that the density at a label is its share.
    theta = mixtures(
        [(0.75, 0, 1e-4), (0.25, 1, 1e-4)],
        [(0.25, 0, 1e-4), (0.75, 1, 1e-4)],
    )
    terms = [(0.5, 0.625), (0.5, 0.375), (0.75, 0.625), (0.25, 0.375)]
    expected = sum(a * math.log(a / m) for a, m in terms) / 2
    n = torch.tensor([10.0, 10.0])
    found = divergences(theta, n, torch.arange(2), "normalised", divergence="js")
    assert found.tolist() == pytest.approx([expected] * 2, abs=1e-9)


def test_jensen_shannon_is_bounded_and_needs_distributions() -> None:
    """At most ln 2, where KL is 49; the bare formulas have no distributions."""
    found = divergences(SELECTED, EQUAL, TEN, "normalised", divergence="js")
    assert float(found.max()) < math.log(2)
    rule = EntropyPool(10, FedEp(divergence="js"))
    p = rule.weights((), cohort([100] * 3, survey=answers(A, B, C))).p
    assert float(p.sum()) == pytest.approx(1)
    assert int(p.argmin()) == 0
    for mode in ("raw", "listing"):
        with pytest.raises(ValueError, match='"js" compares distributions, and mode'):
            FedEp(divergence="js", mode=mode)


def test_inverse_direction_reverses_the_order() -> None:
    """1 / (KL + 0.01)."""
    kl = torch.tensor([0.1, 0.5, 1.0], dtype=torch.float64)
    w = 1 / (kl + 0.01)
    assert torch.allclose(pool(kl, EQUAL, "inverse"), w / w.sum())


@settings(max_examples=15)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=30), min_size=2, max_size=4))
def test_weights_are_a_distribution(clients: list[list[int]]) -> None:
    """Whatever the clients hold, and in every reading; identical clients count by size."""
    held = [np.array(c) for c in clients]
    sizes = [float(len(c)) for c in held]
    for mode in ("floor", "raw", "normalised", "listing"):
        survey = answers(*held, classes=5, mode=mode)
        p, *_ = EntropyPool(5, FedEp(mode=mode)).weights((), cohort(sizes, survey=survey))
        assert torch.isfinite(p).all()
        assert (p >= 0).all()
        assert float(p.sum()) == pytest.approx(1)


def test_a_large_histogram_is_fitted_by_counts() -> None:
    """Ten million labels cost no more than ten."""
    y, count = np.arange(10.0), np.full(10, 1e6)
    theta, value = fit(y, count, 1)
    assert theta[0].tolist() == pytest.approx([1, 4.5, 8.25])
    assert value == pytest.approx(-1e7 / 2 * (math.log(2 * math.pi * 8.25) + 1), rel=1e-9)
