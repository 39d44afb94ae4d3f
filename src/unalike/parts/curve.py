"""What a client minimises in place of its minibatch loss l: an increasing curve of it."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from unalike.batches import Batch
from unalike.task import Task
from unalike.tree import Params


class Curve(Protocol):
    """An increasing function of a loss."""

    def __call__(self, loss: Tensor) -> Tensor:
        """The value to minimise."""
        ...


@dataclass(frozen=True)
class Bargain:
    """PropFair's -log(1 - l/M), or l/M where M - l < floor (Zhang et al. 2022).

    The second branch is the authors' code; it keeps steps finite where the loss is near M or above.
    """

    baseline: float
    floor: float = 0.2

    def __call__(self, loss: Tensor) -> Tensor:
        """The value to minimise."""
        share = loss / self.baseline
        inside = self.baseline - loss >= self.floor
        # Both branches are differentiated: the logarithm must be finite in the one not taken.
        log = -torch.log1p(-torch.where(inside, share, 0.0))
        return torch.where(inside, log, share)


@dataclass(frozen=True)
class Curved:
    """A task whose training loss goes through a curve; judged and reported as before."""

    task: Task
    curve: Curve

    def loss(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """The curve of the minibatch loss, and the buffers after the forward pass."""
        loss, buffers = self.task.loss(w, batch)
        return self.curve(loss), buffers

    def __getattr__(self, name: str) -> Any:
        """Everything else is the task's."""
        if name == "task":  # not there yet while the object is being copied
            raise AttributeError(name)
        return getattr(self.task, name)
