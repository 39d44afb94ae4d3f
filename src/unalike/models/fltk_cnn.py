"""The networks of the Federation Learning Toolkit (FLTK) for MNIST, Fashion-MNIST and CIFAR-10.

The layers are those printed in a thesis on skewed labels that used the toolkit. Where the
toolkit's own code computes something else, a setting that is off by default follows it.
"""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike.models.base import Convolutional

if TYPE_CHECKING:
    from torch import nn


class FLTK(Convolutional):
    """A network of the toolkit."""

    double_softmax: bool = Field(
        default=False, description="end in a softmax before the loss, as the toolkit's code does"
    )

    def ending(self, classes: int) -> list["nn.Module"]:
        """What follows the last linear layer."""
        from unalike.models.classifier import final_softmax

        return [final_softmax(self.name, classes)] if self.double_softmax else []


class Normalised(FLTK):
    """A network of the toolkit with batch normalisation."""

    bn_after_relu: bool = Field(
        default=False, description="normalise after the ReLU, as the toolkit's code does"
    )

    def convolution(self, inputs: int, outputs: int, kernel: int) -> list["nn.Module"]:
        """A convolution that keeps the size, normalised and rectified in the order asked for."""
        from torch import nn

        convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
        norm, relu = nn.BatchNorm2d(outputs), nn.ReLU()
        return [convolution, relu, norm] if self.bn_after_relu else [convolution, norm, relu]


class MnistCNN(FLTK):
    """FLTK's MNIST network: 10 and 20 kernels of 5x5, channel dropout | 50 hidden units."""

    name: ClassVar[str] = "mnist_cnn"

    dropout: float = Field(
        default=0.5, ge=0, lt=1, description="share of feature maps dropped while training"
    )

    def body(self, channels: int) -> list["nn.Module"]:
        """Two convolutions: 28 -> 24 -> 12 -> 8 -> 4 pixels."""
        from torch import nn

        return [
            nn.Conv2d(channels, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(10, 20, 5),
            nn.Dropout2d(self.dropout),
            nn.MaxPool2d(2),
            nn.ReLU(),
        ]

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Two linear layers."""
        from unalike.models.classifier import linear_layers

        return [*linear_layers([width, 50, classes]), *self.ending(classes)]


class FmnistCNN(Normalised):
    """FLTK's Fashion-MNIST network: 16 and 32 kernels of 5x5, batch normalisation | one layer."""

    name: ClassVar[str] = "fmnist_cnn"

    def body(self, channels: int) -> list["nn.Module"]:
        """Two convolutions: 28 -> 14 -> 7 pixels."""
        from torch import nn

        return [
            *self.convolution(channels, 16, 5),
            nn.MaxPool2d(2),
            *self.convolution(16, 32, 5),
            nn.MaxPool2d(2),
        ]

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """One linear layer."""
        from unalike.models.classifier import linear_layers

        return [*linear_layers([width, classes]), *self.ending(classes)]


class CifarCNN(Normalised):
    """FLTK's CIFAR-10 network: six 3x3 convolutions, batch normalisation | 128 hidden units."""

    name: ClassVar[str] = "cifar_cnn"

    hidden_relu: bool = Field(
        default=True, description="a ReLU after the 128 hidden units; the toolkit's code has none"
    )

    def body(self, channels: int) -> list["nn.Module"]:
        """Three pairs of convolutions: 32 -> 16 -> 8 -> 4 pixels."""
        from torch import nn

        layers: list[nn.Module] = []
        for inputs, outputs in ((channels, 32), (32, 64), (64, 128)):
            layers += self.convolution(inputs, outputs, 3)
            layers += self.convolution(outputs, outputs, 3)
            layers.append(nn.MaxPool2d(2))
        return layers

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Two linear layers."""
        from torch import nn

        between = [nn.ReLU()] if self.hidden_relu else []
        return [nn.Linear(width, 128), *between, nn.Linear(128, classes), *self.ending(classes)]
