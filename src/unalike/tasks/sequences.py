"""Next characters: a class after every step of a sequence, or after the last one alone."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from unalike.kinds import NOT_COUNTED
from unalike.metrics.classification import judged
from unalike.tasks.base import Judged
from unalike.tasks.classification import Classification


@dataclass(frozen=True)
class Sequences(Classification):
    """Targets are [n, T], one for every step, or [n]; a metric counts every step as a row."""

    # AUROC would take a sort for every character, and nobody reports it.
    metrics: ClassVar[tuple[str, ...]] = tuple(m for m in Classification.metrics if m != "auroc")
    called: ClassVar[str] = "a prediction of characters"

    def balanced(self, counts: np.ndarray) -> Self:
        """Steps have classes, rows have not."""
        return super(Classification, self).balanced(counts)

    def per_example(self, out: Tensor, y: Tensor) -> Tensor:
        """The mean over the steps that count, so that an example counts once however long."""
        if y.ndim == 1:
            return super().per_example(out, y)
        each = F.cross_entropy(out.transpose(1, 2), y, reduction="none", ignore_index=NOT_COUNTED)
        return each.sum(1) / (y >= 0).sum(1).clamp(min=1)

    def measure(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        """By logits of single steps."""
        if y.ndim == 2:
            owner = owner.repeat_interleave(y.shape[1])
            outputs, y = outputs.flatten(0, 1), y.flatten()
            some = y >= 0
            if not bool(some.all()):
                outputs, y, owner = outputs[some], y[some], owner[some]
        return Judged(*judged(outputs, y, owner, n, auroc=False, per_batch=self.calibration_batch))
