"""Wrong labels in what a client learns from, by a transition matrix T[true, given], M classes.

pair:       T[i, i] = 1 - e,  T[i, (i+1) mod M] = e
symmetric:  T[i, i] = 1 - e,  T[i, j] = e / (M - 1) for every j != i

Clients with wrong labels have them in validation rows too, so rounds are selected on wrong labels
unless ``validation`` is false. Test labels stay true. The mark "noisy labels" says whose labels are
wrong.
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
    """A share of the training and validation labels is replaced; test labels stay true."""

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
    validation: bool = Field(
        default=True,
        description="replace validation labels too; false: they stay true, which nobody with "
        "noisy labels could rely on",
    )

    def apply(self, federation: "Federation", rng: np.random.Generator) -> "Federation":
        """Replaces labels of training rows, then of validation rows."""
        import torch

        from unalike.federation.data import ADAPT, TRAIN, VALIDATION

        examples = federation.examples
        if examples.ranges is not None:
            raise DataError(
                "label_noise replaces classes by others, and these data have a number to predict; "
                "remove the shift."
            )
        if examples.y.ndim != 1 or examples.classes < 2:
            raise DataError(
                f"label_noise needs one label of at least 2 classes per example, got labels of "
                f"shape {list(examples.y.shape)} and {examples.classes} class(es)."
            )
        clients = federation.n_clients + federation.n_new
        noisy = np.zeros(clients, dtype=bool)
        noisy[rng.permutation(clients)[: round(self.share * clients)]] = True
        labels = examples.strata.copy()
        for part in (TRAIN, *([VALIDATION] if self.validation else []), ADAPT):
            rows = np.flatnonzero((federation.part == part) & noisy[federation.owner])
            labels[rows] = corrupted(labels[rows], examples.classes, self.kind, self.ratio, rng)
        y = torch.from_numpy(labels).to(examples.y)
        wrong = replace(federation, examples=replace(examples, y=y))
        return wrong.marked(["noisy labels" if is_noisy else "" for is_noisy in noisy])


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
