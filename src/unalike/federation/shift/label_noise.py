"""Wrong labels in training data, by a transition matrix T[true, given] with ratio e, M classes.

pair:       T[i, i] = 1 - e,  T[i, (i+1) mod M] = e
symmetric:  T[i, i] = 1 - e,  T[i, j] = e / (M - 1) for every j != i
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.shift.base import Shift

if TYPE_CHECKING:
    from unalike.federation.data import Federation

NoiseKind = Literal["pair", "symmetric"]


class LabelNoise(Shift):
    """A share of the training labels is replaced; validation and test labels stay true."""

    kind: NoiseKind = Field(
        default="symmetric", description="replaced by the next class, or by any other class"
    )
    ratio: float = Field(default=0.2, ge=0, le=1, description="probability that a label is wrong")
    share: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="share of the clients, drawn at random, that have noise",
    )

    def apply(self, federation: "Federation", rng: np.random.Generator) -> "Federation":
        """Replaces labels of training rows, those of new clients included."""
        import torch

        from unalike.federation.data import TRAIN

        examples = federation.examples
        if examples.y.ndim != 1 or examples.classes < 2:
            raise DataError(
                f"label_noise needs one label of at least 2 classes per example, got labels of "
                f"shape {list(examples.y.shape)} and {examples.classes} class(es)."
            )
        clients = federation.n_clients + federation.n_new
        noisy = np.zeros(clients, dtype=bool)
        noisy[rng.permutation(clients)[: round(self.share * clients)]] = True
        rows = np.flatnonzero((federation.part == TRAIN) & noisy[federation.owner])
        labels = examples.strata.copy()
        labels[rows] = corrupted(labels[rows], examples.classes, self.kind, self.ratio, rng)
        y = torch.from_numpy(labels).to(examples.y)
        return replace(federation, examples=replace(examples, y=y))


def corrupted(
    labels: np.ndarray, classes: int, kind: NoiseKind, ratio: float, rng: np.random.Generator
) -> np.ndarray:
    """Labels drawn from the row of the transition matrix that belongs to each true label."""
    wrong = rng.random(len(labels)) < ratio
    step = 1 if kind == "pair" else rng.integers(1, classes, len(labels))
    return np.where(wrong, (labels + step) % classes, labels)


def transition(classes: int, kind: NoiseKind, ratio: float) -> np.ndarray:
    """The probability of each given label (column) for each true label (row)."""
    same = np.eye(classes)
    other = np.roll(same, 1, axis=1) if kind == "pair" else (1 - same) / (classes - 1)
    return (1 - ratio) * same + ratio * other
