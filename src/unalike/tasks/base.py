"""A task: a network, its loss, and how its outputs are merged and judged, as pure functions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from unalike import tree
from unalike.batches import Batch
from unalike.errors import ConfigError, RunError
from unalike.kinds import Unit
from unalike.metrics.calibration import Reliability
from unalike.network import Network
from unalike.rng import Key
from unalike.tree import Params

Curve = Callable[[Tensor], Tensor]  # an increasing function of a loss


class Extra(Protocol):
    """A loss beside the task's own; frozen, hashable, and can be pickled."""

    @property
    def passes(self) -> int:
        """Over how many minibatches' worth of further samples it goes."""
        ...

    def __call__(self, w: Params, batch: Batch) -> Tensor:
        """Its value on a minibatch."""
        ...


class Judged(NamedTuple):
    """Every metric of every client (or model), and the bins of the reliability diagram."""

    metrics: dict[str, Tensor]  # the metric n counts the rows
    bins: Reliability | None  # None where nothing is classified


class Task(Protocol):
    """What is learned, as the other parts see it. Frozen, hashable, and can be pickled."""

    classifies: ClassVar[bool]  # whether rows are taken for classes
    headline: ClassVar[str]  # the main metric of a task
    called: ClassVar[str]  # in a sentence, with its article

    @property
    def network(self) -> Network:
        """What is trained."""
        ...

    @property
    def draws(self) -> int:
        """How many normal numbers it takes to judge one row."""
        ...

    def init(self, key: Key) -> Params:
        """Fresh weights and buffers."""
        ...

    def split(self, w: Params) -> tuple[Params, Params]:
        """(trainable weights, buffers)."""
        ...

    def weights(self, w: Params) -> Params:
        """The trainable part of ``w``."""
        ...

    def loss(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """Mean training loss over the real rows, and the buffers after the forward pass."""
        ...

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row in evaluation mode."""
        ...

    def outputs(self, w: Params, x: Tensor, noise: Tensor, real: Tensor | None = None) -> Tensor:
        """The scores of every row; ``noise`` has ``draws`` columns, ``real`` marks padding."""
        ...

    def merge(self, outputs: Iterable[Tensor], how: str) -> Tensor:
        """The outputs of an ensemble, from those of its members one after the other."""
        ...

    def judge(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        """Every metric of each of n owners of rows."""
        ...

    def refuse(self, select: str, ensemble: str, target: float | None) -> None:
        """Raise one sentence if a setting of the evaluation has no meaning for this task."""
        ...

    def curved(self, curve: Curve) -> Self:
        """The task whose training loss goes through a curve; tested and reported as before."""
        ...

    def balanced(self, counts: np.ndarray) -> Self:
        """The task in which every class counts the same in training; ``counts`` are its rows."""
        ...

    def calibrated(self, rows: int) -> Self:
        """The task whose calibration errors are means over batches of so many rows."""
        ...

    def ignorance(self, classes: int, numbers: int) -> float:
        """The loss of a model that knows nothing, for rows of so many numbers."""
        ...


@dataclass(frozen=True)
class NetworkTask(ABC):
    """What all tasks share; a task says what a row's loss is and what its outputs are worth."""

    network: Network
    curve: Curve | None = None  # what is minimised in place of the minibatch's mean loss
    beside: Extra | None = None  # what is minimised beside it

    classifies: ClassVar[bool] = False
    predicts: ClassVar[bool] = False  # whether new rows can be put to it
    gives: ClassVar[str] = "logits"  # what a network outside this library gives for a row
    headline: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]  # what ``judge`` measures, beside n
    ensembles: ClassVar[tuple[str, ...]] = ("probabilities", "votes", "weights")
    called: ClassVar[str]

    @classmethod
    def width(cls, classes: int) -> int:
        """How many numbers a network must give for an example."""
        return classes

    @property
    def draws(self) -> int:
        """None."""
        return 0

    @cached_property
    def _buffers(self) -> frozenset[str]:
        return frozenset(self.network.buffers)

    def init(self, key: Key) -> Params:
        """Fresh weights and buffers."""
        return self.network.init(key)

    def split(self, w: Params) -> tuple[Params, Params]:
        """(trainable weights, buffers)."""
        buffers, weights = tree.split(w, self._buffers)
        return weights, buffers

    def weights(self, w: Params) -> Params:
        """The trainable part of ``w``."""
        return self.split(w)[0]

    def loss(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """Mean training loss over the real rows, and the buffers after the forward pass."""
        each, buffers = self.training(w, batch)
        mean = (each * batch.real).sum() / batch.real.sum().clamp(min=1)
        aim = mean if self.curve is None else self.curve(mean)
        aim = aim if self.beside is None else aim + self.beside(w, batch)
        return aim, {k: v for k, v in buffers.items() if k in w}

    @property
    def passes(self) -> int:
        """Over how many minibatches' worth of samples the loss of one goes."""
        return 1 if self.beside is None else 1 + self.beside.passes

    def curved(self, curve: Curve) -> Self:
        """The task whose training loss goes through a curve."""
        return replace(self, curve=curve)

    def balanced(self, counts: np.ndarray) -> Self:
        """Only classes of rows can count the same."""
        raise ConfigError(
            f"local.class_weights is for classes, and this is {self.called}; leave it out."
        )

    def calibrated(self, rows: int) -> Self:
        """Only classes have confidences."""
        raise ConfigError(
            f"evaluation.calibration_batch is for classes, and this is {self.called}; leave it out."
        )

    def scaled(self, unit: Unit) -> Self:
        """The task whose targets were scaled so; only numbers ever are."""
        return self

    def ignorance(self, classes: int, numbers: int) -> float:
        """The loss of a model that knows nothing: the variance of a target that was scaled."""
        return 1.0

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """What is predicted of each row: the number of a class, or a number itself."""
        raise RunError(f"{self.called} predicts nothing.")

    def delivered(self, module: nn.Module) -> nn.Module:
        """The network for other programs, giving what ``gives`` names."""
        return module

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        """Of each class, for every row."""
        raise RunError(f"{self.called} has no classes, so there are no probabilities; use predict.")

    @abstractmethod
    def training(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """The training loss of every row, and the buffers after the forward pass."""

    @abstractmethod
    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row in evaluation mode."""

    @abstractmethod
    def outputs(self, w: Params, x: Tensor, noise: Tensor, real: Tensor | None = None) -> Tensor:
        """The numbers by which every row is scored."""

    def merge(self, outputs: Iterable[Tensor], how: str) -> Tensor:
        """The mean opinion of all members; every one counts the same."""
        total, count = torch.zeros(()), 0
        for out in outputs:
            total, count = total.to(out.device) + self.opinion(out, how), count + 1
        return self.consensus(total / count)

    def opinion(self, out: Tensor, how: str) -> Tensor:
        """What one member's outputs add to an ensemble."""
        return out

    def consensus(self, mean: Tensor) -> Tensor:
        """Outputs that say what the mean opinion says."""
        return mean

    def judge(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        """Every metric of each of n owners of rows; outputs that are not finite end the run."""
        if not torch.isfinite(outputs).all():
            raise RunError(
                "a model's outputs are no longer finite, so training has diverged; lower local.lr."
            )
        return self.measure(outputs.cpu(), y.cpu(), owner.cpu(), n)

    @abstractmethod
    def measure(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        """Every metric of each of n owners of rows, from finite outputs on the CPU."""

    @abstractmethod
    def misfit(self, x: Tensor, y: Tensor, classes: int, data: str) -> str:
        """What is wrong with the network's outputs for some examples; empty if nothing is."""

    def refuse(self, select: str, ensemble: str, target: float | None) -> None:
        """Raise one sentence if a setting of the evaluation has no meaning for this task."""
        if select not in ("auto", *self.metrics):
            raise ConfigError(
                f"evaluation.select is '{select}', which {self.called} does not have; "
                f"use {self.headline}."
            )
        if ensemble not in self.ensembles:
            raise ConfigError(
                f"evaluation.ensemble is '{ensemble}', but {self.called} has no such ensemble; "
                f"use {' or '.join(self.ensembles)}."
            )
