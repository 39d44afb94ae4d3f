"""Classification: cross-entropy over classes, or over two classes by a single logit."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unalike import mapped
from unalike.batches import Batch
from unalike.errors import ConfigError
from unalike.metrics.classification import judged
from unalike.tasks.base import Judged, NetworkTask
from unalike.tree import Params


@dataclass(frozen=True)
class Classification(NetworkTask):
    """Rows are taken for the class of the largest logit; an ensemble's opinions are shares."""

    classifies: ClassVar[bool] = True
    predicts: ClassVar[bool] = True
    headline: ClassVar[str] = "accuracy"
    metrics: ClassVar[tuple[str, ...]] = (
        *("accuracy", "top5", "loss", "precision", "recall", "f1", "auroc", "ece", "mce"),
    )

    class_weights: tuple[float, ...] = ()  # what a row of each class counts in training
    calibration_batch: int | None = None  # rows whose calibration is judged together; None: all

    def training(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """Cross-entropy of every row, times the weight of its class."""
        out, buffers = self.network.train(w, batch.x, batch.key, batch.real)
        if not self.class_weights:
            return self.per_example(out, batch.y), buffers
        weights = out.new_tensor(self.class_weights)
        if batch.y.is_floating_point():
            return self.per_example(out, batch.y * weights), buffers
        return self.per_example(out, batch.y) * weights[batch.y], buffers

    def balanced(self, counts: np.ndarray) -> Self:
        """Rows count by one over how frequent their class is, and 1 on average."""
        present = counts > 0
        weights = np.where(present, counts.sum() / (present.sum() * np.maximum(counts, 1)), 0.0)
        return replace(self, class_weights=tuple(weights.tolist()))

    def calibrated(self, rows: int) -> Self:
        """Errors of small batches are larger than that of all rows."""
        return replace(self, calibration_batch=rows)

    def ignorance(self, classes: int, numbers: int) -> float:
        """All classes are as likely."""
        return math.log(max(classes, 2))

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """The number of the class that each row is taken for."""
        return outputs.argmax(-1).numpy()

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        """Of each class, for every row."""
        return outputs.double().softmax(-1).numpy()

    def logits(self, w: Params, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The network's output in evaluation mode; ``real`` marks the rows that are not padding."""
        return self.network.eval(w, x, real)

    def outputs(self, w: Params, x: Tensor, noise: Tensor, real: Tensor | None = None) -> Tensor:
        """Logits."""
        return self.logits(w, x, real)

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """Cross-entropy of every row in evaluation mode."""
        return self.per_example(self.logits(w, batch.x, batch.real), batch.y)

    def per_example(self, out: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of every row, from its logits; labels may be shares of classes."""
        if y.is_floating_point():
            return -(y * out.log_softmax(-1)).sum(-1)
        if out.ndim == 2 and out.is_cuda and mapped.here():
            return _by_few_kernels(out, y)
        return F.cross_entropy(out, y, reduction="none")

    def opinion(self, out: Tensor, how: str) -> Tensor:
        """Class probabilities, or all of a row's probability on the class it is taken for."""
        if how == "votes":  # 0 * out: a model that has diverged must not vote
            return F.one_hot(out.argmax(-1), out.shape[-1]).to(out.dtype) + 0 * out
        return out.softmax(-1)

    def consensus(self, mean: Tensor) -> Tensor:
        """Logits of the mean probabilities."""
        return mean.clamp(1e-12, 1 - 1e-7).log()

    def measure(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        """By logits of single rows."""
        return Judged(*judged(outputs, y, owner, n, per_batch=self.calibration_batch))

    def misfit(self, x: Tensor, y: Tensor, classes: int, data: str) -> str:
        """Logits must be a tensor with an entry for every class."""
        out, wanted = self.logits(self.network.given(), x), self.width(classes)
        if not isinstance(out, Tensor):
            return f"must give a tensor of logits, got {type(out).__name__}"
        if out.shape[-1:] != (wanted,):
            return (
                f"gives outputs of shape {tuple(out.shape)} for {len(x)} examples of '{data}', "
                f"whose last axis must be {wanted}"
            )
        self.per_example(out, y)  # raises if the other axes are wrong
        if torch.isnan(out).any():
            return f"gives NaN for rows of '{data}' before any training; correct its forward pass"
        return ""

    def refuse(self, select: str, ensemble: str, target: float | None) -> None:
        """Also a target that no accuracy reaches."""
        super().refuse(select, ensemble, target)
        if target is not None and target > 1:
            raise ConfigError(
                f"evaluation.target is {target:g}, and an accuracy is at most 1; "
                "give it as a share, such as 0.9."
            )


def _by_few_kernels(out: Tensor, y: Tensor) -> Tensor:
    """The same number and derivative as PyTorch's, which inside vmap takes twice as many."""
    chosen = y[:, None] == torch.arange(out.shape[1], device=out.device)
    return -torch.where(chosen, out.log_softmax(1), out.new_zeros(())).sum(1)


@dataclass(frozen=True)
class MultiClass(Classification):
    """One logit for each class, one label for each row."""

    called: ClassVar[str] = "a multi-class task"


@dataclass(frozen=True)
class Binary(Classification):
    """One logit for each row, which is taken for class 1 if it is positive."""

    called: ClassVar[str] = "a binary task"

    @classmethod
    def width(cls, classes: int) -> int:
        """One logit."""
        return 1

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """1 where the logit is positive."""
        return (outputs.squeeze(-1) > 0).long().numpy()

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        """Of class 0 and of class 1."""
        one = torch.sigmoid(outputs.squeeze(-1).double())
        return torch.stack([1 - one, one], -1).numpy()

    def per_example(self, out: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of every row, from its logit."""
        return F.binary_cross_entropy_with_logits(
            out.squeeze(-1), y.to(out.dtype), reduction="none"
        )

    def opinion(self, out: Tensor, how: str) -> Tensor:
        """The probability of class 1, or a vote for it."""
        return (out > 0).to(out.dtype) + 0 * out if how == "votes" else torch.sigmoid(out)

    def consensus(self, mean: Tensor) -> Tensor:
        """The logit of the mean probability."""
        return torch.logit(mean.clamp(1e-12, 1 - 1e-7))

    def measure(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        """By single logits."""
        return Judged(*judged(outputs, y, owner, n, binary=True, per_batch=self.calibration_batch))
