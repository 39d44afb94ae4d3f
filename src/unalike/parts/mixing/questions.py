"""What clients may be asked once, before the first round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class Size:
    """How many training examples a client has."""

    name: ClassVar[str] = "size"
    reveals: ClassVar[str] = "the number of training examples"

    def answer(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """[1]."""
        return np.array([len(labels)], dtype=np.float32)


@dataclass(frozen=True)
class LabelCounts:
    """How many training examples of each class a client has."""

    name: ClassVar[str] = "label_counts"
    reveals: ClassVar[str] = "the number of training examples of every class"

    def answer(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """[classes]."""
        return np.bincount(labels, minlength=classes).astype(np.float32)
