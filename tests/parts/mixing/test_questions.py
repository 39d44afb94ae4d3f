"""Noise on survey answers."""

import numpy as np
import pytest
import torch
from federations import CLASSES, asked, composed, federation, network_task, play

from unalike import rng
from unalike.parts.mixing.label_mixture import LabelMixture
from unalike.parts.mixing.questions import LabelCounts, Own, Size, blurred

LABELS = np.repeat([0, 1, 2], [50, 30, 20])


def noisy(labels: np.ndarray, classes: int, epsilon: float, key: torch.Tensor) -> np.ndarray:
    """Labels whose histogram is the noisy one."""
    return blurred(Own(labels, classes, lambda: torch.zeros(0)), epsilon, key)


def noise(epsilon: float, draws: int = 400) -> np.ndarray:
    """How far noisy counts are from true ones, far away from the edges 0 and n."""
    labels = np.repeat([0, 1], 5000)
    keys = rng.fold_in(rng.key(5), torch.arange(draws))
    return np.stack([asked(LabelCounts(epsilon), labels, 2, k) - 5000 for k in keys]).ravel()


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_noise_is_two_sided_geometric_for_sensitivity_two(epsilon: float) -> None:
    """With a = exp(-epsilon / 2) the variance is 2 a / (1 - a)^2 and P(0) = (1 - a) / (1 + a)."""
    found, a = noise(epsilon), np.exp(-epsilon / 2)
    variance = 2 * a / (1 - a) ** 2
    assert (found == np.rint(found)).all()
    assert abs(found.mean()) < 5 * np.sqrt(variance / len(found))
    assert found.var() == pytest.approx(variance, rel=0.35)
    zero = (1 - a) / (1 + a)
    assert (found == 0).mean() == pytest.approx(zero, abs=5 * np.sqrt(zero / len(found)))


def test_neighbouring_outcomes_differ_in_probability_by_the_promised_factor() -> None:
    """P(g + 1) / P(g) = exp(-epsilon / 2): moving one example between two classes costs epsilon."""
    found = noise(1.0, 4000)
    ratio = (found == 1).sum() / (found == 0).sum()
    assert ratio == pytest.approx(np.exp(-0.5), rel=0.1)


def test_counts_stay_possible() -> None:
    """From zero to the number of examples, and never nobody at all."""
    for seed in range(50):
        y = noisy(LABELS, 3, 0.01, rng.key(seed))
        counts = np.bincount(y, minlength=3)
        assert counts.max() <= len(LABELS)
        assert len(y)
    assert noisy(np.array([0]), 1, 1e-9, rng.key(1)).tolist() == [0]


def test_a_mixture_is_fitted_to_the_noisy_histogram() -> None:
    """Post-processing: the answer is the one the noisy labels would have given."""
    key, question = rng.key(2), LabelMixture(epsilon=0.5)
    expected = asked(LabelMixture(), noisy(LABELS, 3, 0.5, key), 3)
    np.testing.assert_array_equal(asked(question, LABELS, 3, key), expected)
    assert not np.array_equal(expected, asked(LabelMixture(), LABELS, 3))


def test_without_epsilon_answers_are_exact() -> None:
    assert asked(LabelCounts(), LABELS, 3).tolist() == [50, 30, 20]
    assert asked(Size(), LABELS, 3).tolist() == [100]


def test_what_is_said_about_it() -> None:
    assert "noise" not in LabelCounts().reveals
    for question in (LabelCounts(0.5), LabelMixture(epsilon=0.5)):
        assert question.reveals.endswith("with noise (epsilon = 0.5 for one example)")


def surveyed(epsilon: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """FedEP's answers and weights in a small federation."""
    task, data = network_task("dense")
    recipe = composed(task, data, ("fedep", {"survey_epsilon": epsilon}))
    done = play(recipe, data, 1, seed=seed)
    return done.states[0].survey["label_mixture"], done.rounds[0].weights


def test_fedep_asks_with_noise() -> None:
    """Seeded, different for every client and seed, gone as epsilon grows."""
    exact, weights = surveyed(0.0)
    noisy, other = surveyed(0.3)
    assert not torch.equal(exact, noisy)
    assert not torch.equal(weights, other)
    assert torch.equal(noisy, surveyed(0.3)[0])
    assert not torch.equal(noisy, surveyed(0.3, seed=1)[0])
    assert torch.equal(exact, surveyed(1000.0)[0])


def test_clients_with_equal_labels_get_noise_of_their_own() -> None:
    data = federation(sizes=(30, 30))
    data.examples.y[30:] = data.examples.y[:30]
    task, _ = network_task("dense")
    recipe = composed(task, data, "fedavg")
    counts = play(recipe, data, 1).simulation.survey((LabelCounts(0.2),))["label_counts"]
    assert counts.shape == (2, CLASSES)
    assert not torch.equal(counts[0], counts[1])
