"""What a client minimises in place of its minibatch loss l: an increasing curve of it."""

from dataclasses import dataclass
from typing import Any, Protocol

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
