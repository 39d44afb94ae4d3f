"""Small convolutional networks with two convolutions.

``TwoCNN``: Hahn et al. 2022 (SuPerFed); ``McMahanCNN``: McMahan et al. 2017 (FedAvg); ``LGCNN``:
Liang et al. 2020 (LG-FedAvg); ``FedDiscoCNN``: Ye et al. 2023 (FedDisco).
"""

from typing import TYPE_CHECKING, ClassVar

from unalike.models.base import Convolutional

if TYPE_CHECKING:
    from torch import nn


def _wide_body(channels: int, *, bias: bool) -> list["nn.Module"]:
    """32 and 64 kernels of 5x5: 28 -> 26 -> 14 -> 12 -> 7 pixels."""
    from torch import nn

    layers: list[nn.Module] = []
    for inputs, outputs in ((channels, 32), (32, 64)):
        layers += [
            nn.Conv2d(inputs, outputs, 5, padding=1, bias=bias),
            nn.ReLU(),
            nn.MaxPool2d(2, padding=1),
        ]
    return layers


def _lenet_body(channels: int) -> list["nn.Module"]:
    """6 and 16 kernels of 5x5: 32 -> 28 -> 14 -> 10 -> 5 pixels."""
    from torch import nn

    layers: list[nn.Module] = []
    for inputs, outputs in ((channels, 6), (6, 16)):
        layers += [nn.Conv2d(inputs, outputs, 5), nn.ReLU(), nn.MaxPool2d(2)]
    return layers


class TwoCNN(Convolutional):
    """SuPerFed's network: 32 and 64 kernels of 5x5 | 200, 200 hidden units, no biases."""

    name: ClassVar[str] = "two_cnn"

    def body(self, channels: int) -> list["nn.Module"]:
        """Two convolutions."""
        return _wide_body(channels, bias=False)

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Three linear layers."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, 200, 200, classes], bias=False)


class McMahanCNN(Convolutional):
    """FedAvg's CNN: 32 and 64 kernels of 5x5 | 512 hidden units."""

    name: ClassVar[str] = "mcmahan_cnn"

    def body(self, channels: int) -> list["nn.Module"]:
        """Two convolutions."""
        return _wide_body(channels, bias=True)

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Two linear layers."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, 512, classes])


class LGCNN(Convolutional):
    """LG-FedAvg's CNN for CIFAR-10: 6 and 16 kernels of 5x5 | 120, 100 hidden units."""

    name: ClassVar[str] = "lg_cnn"

    def body(self, channels: int) -> list["nn.Module"]:
        """Two convolutions."""
        return _lenet_body(channels)

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Three linear layers."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, 120, 100, classes])


class FedDiscoCNN(Convolutional):
    """FedDisco's CNN: 6 and 16 kernels of 5x5 | 120, 84 hidden units."""

    name: ClassVar[str] = "feddisco_cnn"

    def body(self, channels: int) -> list["nn.Module"]:
        """Two convolutions."""
        return _lenet_body(channels)

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Three linear layers."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, 120, 84, classes])
