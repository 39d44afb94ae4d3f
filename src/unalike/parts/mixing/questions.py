"""What clients may be asked once, before the first round, and what their answers reveal.

An answer may be noisy: h_c <- h_c + G_c clipped to 0 .. n on the label histogram, before anything
is computed from it,   P(G = g) ~ exp(-epsilon |g| / 2)                     (geometric noise)

Replacing one example by another takes one from a class and adds one to another: the histogram moves
by 2 in the L1 norm, so every answer that is computed from the noisy one is epsilon-differentially
private in examples (Ghosh et al. 2009). The number of examples is not a secret: it is sent anyway.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from unalike import rng
from unalike.rng import Key
from unalike.tree import Params


class Own(NamedTuple):
    """A client's training examples, as it sees them when it answers a question."""

    labels: np.ndarray
    classes: int
    features: Callable[[], Tensor]  # called only if a question is about them


class Question(Protocol):
    """Something every client is asked once, before the first round."""

    @property
    def name(self) -> str:
        """What the answers are found under."""
        ...

    @property
    def reveals(self) -> str:
        """What the answer tells the server, in words."""
        ...

    @property
    def payload(self) -> Params:
        """What every client is sent with the question; mostly nothing."""
        ...

    def answer(self, own: Own, key: Key) -> np.ndarray:
        """One client's answer, of the same shape for every client; the key is its own."""
        ...


class Plain:
    """A question that needs no payload."""

    @property
    def payload(self) -> Params:
        """Nothing."""
        return {}


@dataclass(frozen=True)
class Size(Plain):
    """How many training examples a client has."""

    name: ClassVar[str] = "size"
    reveals: ClassVar[str] = "the number of training examples"

    def answer(self, own: Own, key: Key) -> np.ndarray:
        """[1]."""
        return np.array([len(own.labels)], dtype=np.float32)


@dataclass(frozen=True)
class LabelCounts(Plain):
    """How many training examples of each class a client has."""

    epsilon: float = 0.0
    name: ClassVar[str] = "label_counts"

    @property
    def reveals(self) -> str:
        """Everything about the label distribution."""
        return "the number of training examples of every class" + noise_note(self.epsilon)

    def answer(self, own: Own, key: Key) -> np.ndarray:
        """[classes]."""
        labels = blurred(own, self.epsilon, key)
        return np.bincount(labels, minlength=own.classes).astype(np.float32)


@dataclass(frozen=True)
class LabelSet(Plain):
    """Which classes occur among a client's training examples."""

    epsilon: float = 0.0
    name: ClassVar[str] = "label_set"

    @property
    def reveals(self) -> str:
        """Which classes it has, not how many of each."""
        return "which classes occur" + noise_note(self.epsilon)

    def answer(self, own: Own, key: Key) -> np.ndarray:
        """[classes] bool."""
        return np.bincount(blurred(own, self.epsilon, key), minlength=own.classes) > 0


def blurred(own: Own, epsilon: float, key: Key) -> np.ndarray:
    """Labels whose histogram is the noisy one, or as they are if epsilon is 0.

    One of each class if the noise left none.
    """
    if not epsilon:
        return own.labels
    counts = np.bincount(own.labels, minlength=own.classes)
    counts = np.clip(counts + _geometric(own.classes, epsilon / 2, key), 0, len(own.labels))
    return np.repeat(np.arange(own.classes), counts if counts.any() else 1)


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
