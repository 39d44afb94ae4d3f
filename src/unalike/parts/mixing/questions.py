"""What clients may be asked once, before the first round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unalike.parts.mixing.survey import noise_note


@dataclass(frozen=True)
class Size:
    """How many training examples a client has."""

    name: ClassVar[str] = "size"
    reveals: ClassVar[str] = "the number of training examples"
    epsilon: ClassVar[float] = 0.0

    def answer(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """[1]."""
        return np.array([len(labels)], dtype=np.float32)


@dataclass(frozen=True)
class LabelCounts:
    """How many training examples of each class a client has."""

    epsilon: float = 0.0
    name: ClassVar[str] = "label_counts"

    @property
    def reveals(self) -> str:
        """Everything about the label distribution."""
        return "the number of training examples of every class" + noise_note(self.epsilon)

    def answer(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """[classes]."""
        return np.bincount(labels, minlength=classes).astype(np.float32)


@dataclass(frozen=True)
class LabelSet:
    """Which classes occur among a client's training examples."""

    epsilon: float = 0.0
    name: ClassVar[str] = "label_set"

    @property
    def reveals(self) -> str:
        """Which classes it has, not how many of each."""
        return "which classes occur" + noise_note(self.epsilon)

    def answer(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """[classes] bool."""
        return np.bincount(labels, minlength=classes) > 0
