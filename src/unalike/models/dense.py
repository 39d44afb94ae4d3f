"""Multilayer perceptrons; images are flattened.

``TwoNN``: Hahn et al. 2022 (SuPerFed); ``McMahan2NN``: McMahan et al. 2017 (FedAvg); ``FedEPMLP``:
the perceptron of the fedstellar family; ``LGMLP``: Liang et al. 2020 (LG-FedAvg).
"""

from math import prod
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field, model_validator

from unalike.models.base import Model, Shape

if TYPE_CHECKING:
    from torch import nn


class Dense(Model):
    """A perceptron, which takes inputs of any shape."""

    takes: ClassVar[str] = "at least one feature, in an array of any shape"


class TwoNN(Dense):
    """SuPerFed's perceptron: 200, 200 | 200 hidden units, no biases."""

    name: ClassVar[str] = "two_nn"

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """784-200-200 | 200-10 for MNIST: one hidden layer more than McMahan's."""
        from unalike.models.classifier import perceptron

        return perceptron([prod(shape), 200, 200, 200, classes], head=2, bias=False)


class McMahan2NN(Dense):
    """FedAvg's 2NN: two hidden layers of 200 units."""

    name: ClassVar[str] = "mcmahan_2nn"

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """784-200-200 | 10 for MNIST."""
        from unalike.models.classifier import perceptron

        return perceptron([prod(shape), 200, 200, classes])


class MLP(Dense):
    """A multilayer perceptron with hidden layers of your choice."""

    name: ClassVar[str] = "mlp"

    hidden: list[Annotated[int, Field(gt=0)]] = Field(
        default=[64], description="units of each hidden layer"
    )
    head_layers: int = Field(default=1, ge=1, description="linear layers that form the head")
    bias: bool = Field(default=True, description="whether linear layers have biases")
    batch_norm: bool = Field(
        default=False, description="whether hidden layers are normalised by BatchNorm"
    )

    @model_validator(mode="after")
    def _head_fits(self) -> Self:
        if self.head_layers > len(self.hidden) + 1:
            raise ValueError(
                f"head_layers = {self.head_layers} is more than the {len(self.hidden) + 1} "
                f"linear layers that hidden = {self.hidden} gives"
            )
        return self

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """Inputs, hidden layers, classes."""
        from unalike.models.classifier import perceptron

        widths = [prod(shape), *self.hidden, classes]
        return perceptron(widths, head=self.head_layers, bias=self.bias, norm=self.batch_norm)


class FedEPMLP(Dense):
    """FedEP's perceptron: 256 and 128 hidden units."""

    name: ClassVar[str] = "fedep_mlp"

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """784-256-128 | 10 for MNIST."""
        from unalike.models.classifier import perceptron

        return perceptron([prod(shape), 256, 128, classes])


class LGMLP(Dense):
    """LG-FedAvg's perceptron: 512, 256 | 256, 128 hidden units; three layers are the head."""

    name: ClassVar[str] = "lg_mlp"

    double_softmax: bool = Field(
        default=False, description="end in a softmax before the loss, as the authors' code does"
    )

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """784-512-256 | 256-128-10 for MNIST."""
        from unalike.models.classifier import final_softmax, perceptron

        widths = [prod(shape), 512, 256, 256, 128, classes]
        ending = [final_softmax(self.name, classes)] if self.double_softmax else []
        return perceptron(widths, head=3, ending=ending)
