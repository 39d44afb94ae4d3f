"""Differential privacy of survey answers: noise on the label histogram, before any question.

h_c <- h_c + G_c clipped to 0 .. n,   P(G = g) ~ exp(-epsilon |g| / 2)      (geometric noise)

Replacing one example by another takes one from a class and adds one to another: the histogram moves
by 2 in the L1 norm, so every answer that is computed from the noisy one is epsilon-differentially
private in examples (Ghosh et al. 2009). The number of examples is no secret: it is sent anyway.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from unalike import rng
from unalike.parts.mixing.base import Question
from unalike.rng import Key
from unalike.tree import Params


@runtime_checkable
class Drawing(Protocol):
    """A question whose answer is random."""

    def draw(self, labels: np.ndarray, classes: int, key: Key) -> np.ndarray:
        """One client's answer from its training labels and its own key."""
        ...


@runtime_checkable
class Probing(Protocol):
    """A question about features, which comes with something to answer it by."""

    @property
    def payload(self) -> Params:
        """What every client is sent with the question."""
        ...

    def probe(self, x: Tensor, key: Key) -> np.ndarray:
        """One client's answer from the features of its training examples."""
        ...


def ask(
    question: Question,
    labels: np.ndarray,
    classes: int,
    key: Key,
    features: Callable[[], Tensor] | None = None,
) -> np.ndarray:
    """One client's answer: from its features, or from its labels, exact or with noise."""
    if isinstance(question, Probing):
        assert features is not None, f"the question '{question.name}' is about features"
        return question.probe(features(), key)
    if question.epsilon:
        labels = blurred(labels, classes, question.epsilon, key)
    if isinstance(question, Drawing):
        return question.draw(labels, classes, rng.fold_in(key, 0))
    return question.answer(labels, classes)


def blurred(labels: np.ndarray, classes: int, epsilon: float, key: Key) -> np.ndarray:
    """Labels whose histogram is the noisy one; one of each class if the noise left none."""
    counts = np.bincount(labels, minlength=classes) + _geometric(classes, epsilon / 2, key)
    counts = np.clip(counts, 0, len(labels))
    return np.repeat(np.arange(classes), counts if counts.any() else 1)


def _geometric(n: int, rate: float, key: Key) -> np.ndarray:
    """Whole numbers with P(g) ~ exp(-rate |g|): the difference of two geometric ones."""
    bits = rng.bits(key, 2 * n).numpy().view(np.uint64)
    u = ((bits >> 11) + 1) * 2.0**-53  # in (0, 1], with all 53 bits, for the sake of the tails
    up, down = np.floor(-np.log(u) / rate).reshape(2, n)
    return (up - down).astype(np.int64)


def noise_note(epsilon: float) -> str:
    """What to add to the words about an answer.

    >>> noise_note(0.5)
    ', with noise (epsilon = 0.5 for one example)'
    """
    return f", with noise (epsilon = {epsilon:g} for one example)" if epsilon else ""
