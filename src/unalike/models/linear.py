"""Models that are linear in their inputs."""

from math import prod
from typing import TYPE_CHECKING, ClassVar

from unalike.models.base import Model, Shape

if TYPE_CHECKING:
    from torch import nn


class Logistic(Model):
    """A linear model: logistic regression, or linear regression where a number is predicted."""

    name: ClassVar[str] = "logistic"
    takes: ClassVar[str] = "at least one feature, in an array of any shape"

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """One linear layer with bias, which is all head."""
        from unalike.models.classifier import perceptron

        return perceptron([prod(shape), classes])
