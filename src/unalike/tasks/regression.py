"""Regression: a number for every row, by squared error.

training: (f(x) - y)^2,   y the target scaled to mean 0 and variance 1 over training rows
judged in the unit of the target, which ``unit`` brings back
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from torch import Tensor, nn

from unalike.batches import Batch
from unalike.kinds import AS_GIVEN, Unit
from unalike.metrics.regression import per_client
from unalike.metrics.segments import segment_mean
from unalike.tasks.base import Judged, NetworkTask
from unalike.tree import Params


class _InUnit(nn.Module):
    """A network whose outputs are brought back to the unit of the target."""

    def __init__(self, network: nn.Module, unit: Unit) -> None:
        super().__init__()
        self.network, self.unit = network, unit

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.network(x)
        return out * self.unit.spread + self.unit.centre


@dataclass(frozen=True)
class Regression(NetworkTask):
    """One output for each row; an ensemble says the mean of its members.

    The loss is that of the scaled target, so a model that has learned nothing has a loss of 1.
    """

    predicts: ClassVar[bool] = True
    gives: ClassVar[str] = "prediction"
    headline: ClassVar[str] = "rmse"
    metrics: ClassVar[tuple[str, ...]] = ("rmse", "mae", "r2", "loss")
    ensembles: ClassVar[tuple[str, ...]] = ("probabilities", "weights")
    called: ClassVar[str] = "a regression"

    unit: Unit = AS_GIVEN

    @classmethod
    def width(cls, classes: int) -> int:
        """One number."""
        return 1

    def scaled(self, unit: Unit) -> Self:
        """The task whose targets were scaled so."""
        return replace(self, unit=unit)

    def training(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """The squared error of every row."""
        out, buffers = self.network.train(w, batch.x, batch.key, batch.real)
        return self.per_example(out, batch.y), buffers

    def per_example(self, out: Tensor, y: Tensor) -> Tensor:
        """The squared error of every row, from the network's output."""
        return (out.squeeze(-1) - y.to(out.dtype)) ** 2

    def outputs(self, w: Params, x: Tensor, noise: Tensor, real: Tensor | None = None) -> Tensor:
        """[n, 1]: the scaled number of every row."""
        return self.network.eval(w, x, real)

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The squared error of every row in evaluation mode."""
        return self.per_example(self.network.eval(w, batch.x, batch.real), batch.y)

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """Numbers in the unit of the target."""
        return self._in_unit(outputs.squeeze(-1)).numpy()

    def delivered(self, module: nn.Module) -> nn.Module:
        """The network, giving numbers in the unit of the target."""
        return _InUnit(module, self.unit)

    def measure(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        """Errors in the unit of the target, and the loss in that of training."""
        f = outputs.squeeze(-1)
        found = per_client(self._in_unit(f), self._in_unit(y), owner, n)
        loss = segment_mean((f.double() - y.double()) ** 2, owner, n)
        return Judged({**found, "loss": loss}, None)

    def misfit(self, x: Tensor, y: Tensor, classes: int, data: str) -> str:
        """Outputs must be a tensor with one number for every row."""
        out = self.network.eval(self.network.given(), x)
        if not isinstance(out, Tensor):
            return f"must give a tensor of numbers, got {type(out).__name__}"
        if out.shape != (len(x), 1):
            return (
                f"gives outputs of shape {tuple(out.shape)} for {len(x)} examples of '{data}', "
                f"and a regression takes one number for each: ({len(x)}, 1)"
            )
        return ""

    def _in_unit(self, values: Tensor) -> Tensor:
        return values.double() * self.unit.spread + self.unit.centre
