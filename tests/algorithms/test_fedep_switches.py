"""FedEP's switches: whose labels, which penalty, whether weights sum to one, and the listing's EM.

Clients A (10 of each of ten labels), B (50, 30, 20 of labels 0, 1, 2) and C (10, 30, 60 of labels
7, 8, 9), whose mixtures with one part are known in closed form.
"""

import math

import numpy as np
import pytest
import torch
from federations import asked, cohort
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unalike import rng
from unalike.algorithms.fedep import EntropyPool, FedEp
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.mixing import label_mixture, listed_mixture
from unalike.parts.mixing.entropy_pool import divergences, pool
from unalike.parts.mixing.label_mixture import LabelMixture
from unalike.parts.mixing.questions import LabelSet
from unalike.tasks import MultiClass

A = np.repeat(np.arange(10), 10)
B = np.repeat([0, 1, 2], [50, 30, 20])
C = np.repeat([7, 8, 9], [10, 30, 60])
THREE = (A, B, C)
LISTED = torch.tensor([[[1, 4.5, 8.26]], [[1, 0.7, 0.62]], [[1, 8.5, 0.46]]])
TEN = MultiClass(Network(MODELS["mlp"](hidden=[6]).build((1, 4, 4), 10)))
ONE_PART = torch.tensor([[[1, 4.5, 8.25]], [[1, 0.7, 0.61]], [[1, 8.5, 0.45]]])


def survey(theta: Tensor) -> dict[str, Tensor]:
    """Given mixtures, with the true label sets and sizes."""
    sets = np.stack([asked(LabelSet(), y, 10) for y in THREE])
    return {
        "label_mixture": theta,
        "size": torch.full((3, 1), 100.0),
        "label_set": torch.from_numpy(sets),
    }


@pytest.mark.parametrize(
    ("own", "alpha"),
    [
        ([0], (0.302867, 0.352444, 0.344689)),  # all ten labels: as the global set
        ([1], (0.347248, 0.045482, 0.607270)),  # labels 0 to 2
        ([0, 1, 2], (0.302867, 0.352444, 0.344689)),  # an edge server of all three
    ],
)
def test_labels_of_the_aggregator(own, alpha):
    """What the listing does: a node compares at its own labels."""
    rule = EntropyPool(10, FedEp(mode="listing", label_set="own"))
    who = cohort([100] * 3, survey=survey(LISTED))._replace(own=torch.tensor(own))
    assert rule.weights((), who)[0].tolist() == pytest.approx(alpha, abs=1e-6)


def test_global_labels_are_the_same_for_everybody():
    """Whoever aggregates."""
    rule = EntropyPool(10, FedEp(mode="floor"))
    for own in ([0], [1], [2]):
        who = cohort([100] * 3, survey=survey(ONE_PART))._replace(own=torch.tensor(own))
        expected = (0.148797, 0.424020, 0.427183)
        assert rule.weights((), who)[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_label_set_is_asked_only_where_it_is_used():
    """One byte for every class."""
    assert [q.name for q in EntropyPool(10, FedEp()).survey] == ["label_mixture", "size"]
    names = [q.name for q in EntropyPool(10, FedEp(label_set="own")).survey]
    assert names == ["label_mixture", "size", "label_set"]
    answer = asked(LabelSet(), np.array([1, 1, 4]), 5)
    assert answer.tolist() == [False, True, False, False, True]
    assert answer.nbytes == 5


@pytest.mark.parametrize("renormalise", [True, False])
def test_weights_of_a_cohort(renormalise):
    """Of all that the server knows; they sum to one only if renormalised."""
    rule = EntropyPool(10, FedEp(renormalise=renormalise))
    some, *_ = rule.weights((), cohort([100, 100], [0, 2], n=3, survey=survey(ONE_PART)))
    whole = np.array([0.148797, 0.427183])
    expected = whole / whole.sum() if renormalise else whole
    assert some.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("listing", "bic", "q"),
    [(False, "auto", 3), (False, "m", 1), (True, "auto", 1), (True, "3m-1", 3)],
)
def test_penalty(listing, bic, q):
    """Textbook 3M - 1 by default, M in the listing; either can be asked for."""
    labels = np.random.default_rng(0).integers(0, 10, 40)
    key = rng.key(4)
    answer = asked(LabelMixture(0.5, listing, bic=bic), labels, 10, key)
    if listing:
        lot = np.random.default_rng(int(rng.fold_in(key, 0)) % 2**64)
        expected = listed_mixture.select(labels, 5, lot, q)
    else:
        expected = label_mixture.select(labels, 0.5, q=q)
    assert np.allclose(answer[answer[:, 0] > 0], expected, atol=1e-6)


def test_a_smaller_penalty_never_chooses_fewer_parts():
    """On thirty random clients, and on some of them more."""
    draw = np.random.default_rng(1)
    more = 0
    for _ in range(30):
        labels = draw.choice(10, 30, p=draw.dirichlet(np.full(10, 0.5)))
        few, many = (len(label_mixture.select(labels, 0.5, 4, q=q)) for q in (3, 1))
        assert many >= few
        more += many > few
    assert more


def stepped(labels: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """One step of the listing's EM, example by example."""
    e = 0.01

    def g(y: float, mu: float, s2: float) -> float:
        return math.exp(-((y - mu + e) ** 2) / (2 * (s2 + e))) / math.sqrt(2 * math.pi * (s2 + e))

    gamma = np.array([[pi * g(y, mu, s2) for pi, mu, s2 in theta] for y in labels])
    gamma /= gamma.sum(1, keepdims=True)
    new = []
    for m in range(len(theta)):
        mass = gamma[:, m].sum()
        mu = (gamma[:, m] * labels).sum() / mass
        new.append((mass / len(labels), mu, (gamma[:, m] * (labels - mu) ** 2).sum() / mass + e))
    q = sum(
        gamma[n, m] * (math.log(pi) + math.log(g(y, mu, s2) + e))
        for n, y in enumerate(labels)
        for m, (pi, mu, s2) in enumerate(new)
    )
    return np.array(new), q


@given(st.lists(st.integers(0, 6), min_size=2, max_size=15), st.integers(1, 3), st.integers(0, 9))
def test_a_step_of_the_listing(labels, parts, seed):
    """Shifted mean, inflated variance, and the constant inside the logarithm of the density."""
    y, count = (v.astype(float) for v in np.unique(labels, return_counts=True))
    draw = np.random.default_rng(seed)
    pi = draw.dirichlet(np.ones(parts))
    theta = np.stack([pi, draw.choice(y, parts), np.full(parts, np.var(labels))], 1)
    found, q = listed_mixture._step(y, count, theta)
    expected, listed = stepped(np.array(labels, dtype=float), theta)
    assert np.allclose(found, expected)
    assert q == pytest.approx(listed)


@pytest.mark.parametrize(
    ("labels", "mean", "variance"), [(A, 4.5, 8.26), (B, 0.7, 0.62), (C, 8.5, 0.46)]
)
def test_one_part_of_the_listing(labels, mean, variance):
    """The mean, and the variance plus 0.01, whatever the start."""
    y, count = np.unique(labels, return_counts=True)
    for seed in range(3):
        theta, _ = listed_mixture.fit(y, count, 1, np.random.default_rng(seed))
        assert theta[0].tolist() == pytest.approx([1, mean, variance], abs=1e-9)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(0, 20))
def test_listing_always_answers(labels, seed):
    """Finite rows that sum to one, for single labels and single examples as well."""
    answer = asked(LabelMixture(0.5, listing=True), np.array(labels), 10, rng.key(seed))
    assert np.isfinite(answer).all()
    assert answer[:, 0].sum() == pytest.approx(1, abs=1e-5)
    assert (answer[:, 2] > 0).all()


def test_listing_draws_from_the_clients_key():
    """Another key may give another mixture, the same key never does; formulas need no key."""
    draws = [asked(LabelMixture(0.5, listing=True), C, 10, rng.key(k)) for k in range(12)]
    again = [asked(LabelMixture(0.5, listing=True), C, 10, rng.key(k)) for k in range(12)]
    assert all(np.array_equal(a, b) for a, b in zip(draws, again, strict=True))
    assert len({a.tobytes() for a in draws}) > 1
    fixed = {asked(LabelMixture(0.5), C, 10, rng.key(k)).tobytes() for k in range(3)}
    assert len(fixed) == 1


def test_a_diverged_start_is_dropped():
    """Two labels so far apart that no part reaches one of them: the step before is returned."""
    y, count = np.array([0.0, 1e4]), np.array([5, 5])
    theta, _ = listed_mixture.fit(y, count, 2, np.random.default_rng(0))
    assert np.isfinite(theta).all()


def printed(Y: np.ndarray, lot: np.random.Generator) -> tuple[np.ndarray, list[float]]:
    """The program of the thesis, example by example: (theta of the least BIC, all likelihoods)."""
    e, Y = 0.01, np.sort(Y)

    def gaussian(mu: float, s2: float) -> np.ndarray:
        return np.exp(-np.square(Y - mu + e) / (2 * (s2 + e))) / np.sqrt(2 * np.pi * (s2 + e))

    def em(M: int) -> tuple[np.ndarray, float]:
        pi = lot.random(M)
        mu = Y[lot.choice(len(Y), M, replace=False)]
        theta = np.column_stack((pi / pi.sum(), mu, [np.var(Y)] * M))
        theta_prev, likelihood_prev = theta, 0.0
        for _ in range(1500):
            joint = np.stack([theta[m, 0] * gaussian(theta[m, 1], theta[m, 2]) for m in range(M)])
            gamma = (joint / joint.sum(0)).T
            n_m = gamma.sum(0)
            mu_h = np.array([gamma[:, m] @ Y / n_m[m] for m in range(M)])
            s2_h = [gamma[:, m] @ ((Y - mu_h[m]) ** 2 + e) / n_m[m] for m in range(M)]
            theta = np.column_stack((n_m / len(Y), mu_h, s2_h))
            likelihood = sum(
                n_m[m] * np.log(theta[m, 0]) + gamma[:, m] @ np.log(gaussian(mu_h[m], s2_h[m]) + e)
                for m in range(M)
            )
            if likelihood == -np.inf or math.isnan(likelihood):
                return theta_prev, likelihood_prev
            if abs(likelihood - likelihood_prev) < 1e-6:
                break
            likelihood_prev, theta_prev = likelihood, theta
        return theta, likelihood

    with np.errstate(all="ignore"):
        fits = [em(M) for M in range(1, math.ceil(len(np.unique(Y)) / 2) + 1)]
    bic = [-2 * L + M * np.log(len(Y)) for M, (_, L) in enumerate(fits)]
    best = fits[int(np.argmin(bic))][0]
    return best[np.argsort(best[:, 1], kind="stable")], [L for _, L in fits]


def twins(labels: np.ndarray, most: int, lot: np.random.Generator) -> bool:
    """Whether a start has two parts at one label: only rounding errors ever tell them apart."""
    starts = []
    for parts in range(1, most + 1):
        lot.random(parts)
        starts.append(np.sort(labels)[lot.choice(len(labels), parts, replace=False)])
    return any(len(np.unique(s)) < len(s) for s in starts)


def test_the_listing_is_the_printed_program() -> None:
    """The same draws give the same mixture, for random clients of 30 to 69 examples."""
    compared = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        labels = draw.choice(6, 30 + seed, p=draw.dirichlet(np.full(6, 3.0)))
        most = math.ceil(len(np.unique(labels)) / 2)
        if twins(labels, most, np.random.default_rng(seed)):
            continue
        expected, _ = printed(labels, np.random.default_rng(seed))
        found = listed_mixture.select(labels, most, np.random.default_rng(seed))
        assert found.shape == expected.shape
        assert found == pytest.approx(expected, abs=1e-5)
        compared += 1
    assert compared >= 10


def test_a_first_step_that_fails_wins_the_selection() -> None:
    """Its likelihood stays 0, above that of every step that did not fail.

    2000 zeros, a nine and two labels in between: no part about 0 reaches the nine.
    """
    labels = np.array([0] * 2000 + [1, 2, 9])
    found = 0
    for seed in range(10):
        theta, likelihoods = printed(labels, np.random.default_rng(seed))
        failed = [m for m, value in enumerate(likelihoods) if value == 0]
        found += bool(failed)
        ours = listed_mixture.select(labels, 2, np.random.default_rng(seed))
        assert ours == pytest.approx(theta, abs=1e-6)
        if failed:
            assert len(ours) == failed[0] + 1
    assert found


def test_one_client_and_absent_classes():
    """A federation of one; and one in which most classes do not occur at all."""
    rule = EntropyPool(10, FedEp(label_set="own"))
    for clients in ([np.array([3, 3])], [np.array([0]), np.array([9, 9]), np.array([0, 9])]):
        answers = {
            q.name: torch.from_numpy(np.stack([asked(q, y, 10) for y in clients]))
            for q in rule.survey
        }
        p, *_ = rule.weights((), cohort([float(len(y)) for y in clients], survey=answers))
        assert torch.isfinite(p).all()
        assert float(p.sum()) == pytest.approx(1)


def test_a_listing_that_fails_at_once_answers_with_its_start():
    """2000 zeros and a nine: at 9 the density about 0 is e^-804, so 0 / 0, and theta never moves.

    The variance of all labels is 81/2001 - (9/2001)^2 = 0.040459.
    """
    labels = np.array([0] * 2000 + [9])
    for seed in range(3):
        answer = asked(LabelMixture(0.5, listing=True), labels, 10, rng.key(seed))
        assert answer[0].tolist() == pytest.approx([1, 0, 81 / 2001 - (9 / 2001) ** 2], abs=1e-7)
        assert (answer[1:, 0] == 0).all()


@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_the_inverse_direction_has_the_setting_under_it(epsilon):
    """Divergences of 0.5 and 2: weights as 1 / (0.5 + e) to 1 / (2 + e)."""
    p = pool(torch.tensor([0.5, 2.0]), torch.tensor([10.0, 10]), "inverse", epsilon)
    first, second = 1 / (0.5 + epsilon), 1 / (2 + epsilon)
    assert p.tolist() == pytest.approx([first / (first + second), second / (first + second)])
    rule = EntropyPool(10, FedEp(direction="inverse", epsilon=epsilon))
    kl = divergences(ONE_PART, torch.full((3,), 100.0), torch.arange(10), "floor", epsilon)
    found, *_ = rule.weights(rule.init(3), cohort([100] * 3, survey=survey(ONE_PART)))
    assert found.tolist() == pytest.approx(
        (1 / (kl + epsilon) / (1 / (kl + epsilon)).sum()).tolist()
    )


def test_divergences_that_are_no_numbers_are_noted():
    """A mixture that a client sent as NaN spoils all of them; the sizes are used, and said so."""
    rule, broken = EntropyPool(10, FedEp()), ONE_PART.clone()
    broken[1] = torch.nan
    found = rule.weights((), cohort([10, 20, 30], survey=survey(broken)))
    assert found.p.tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert "not finite, so sizes were used as weights" in found.note
    assert rule.weights((), cohort([10, 20, 30], survey=survey(ONE_PART))).note == ""


@pytest.mark.parametrize("floor", [0.01, 0.25])
def test_the_least_variance_is_a_setting(floor):
    """A single label has no variance of its own; B with one part has 0.61, above both floors."""
    question = EntropyPool(10, FedEp(variance_floor=floor, rho=0.1)).survey[0]
    assert asked(question, np.full(5, 3), 10)[0].tolist() == pytest.approx([1, 3, floor])
    assert asked(question, B, 10)[0].tolist() == pytest.approx([1, 0.7, 0.61])
