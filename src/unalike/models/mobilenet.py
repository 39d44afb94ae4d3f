"""Networks of depthwise-separable convolutions (Howard et al. 2017).

``MobileNet``: Hahn et al. 2022 (SuPerFed) for TinyImageNet; ``MobileNetSmall``: the network of the
fedstellar family for CIFAR-10.
"""

from typing import TYPE_CHECKING, ClassVar

from unalike.models.base import Convolutional

if TYPE_CHECKING:
    from torch import nn


def _rectified(
    inputs: int, outputs: int, kernel: int, stride: int, padding: int, groups: int, track: bool
) -> list["nn.Module"]:
    """Convolution, batch normalisation, ReLU; ``track`` keeps running statistics."""
    from torch import nn

    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, track_running_stats=track),
        nn.ReLU(),
    ]


def _separable(
    inputs: int, outputs: int, stride: int, *, padding: int, track: bool
) -> list["nn.Module"]:
    """A 3x3 convolution of every channel alone, then a 1x1 convolution that mixes them."""
    return [
        *_rectified(inputs, inputs, 3, stride, padding, inputs, track),
        *_rectified(inputs, outputs, 1, 1, 0, 1, track),
    ]


class MobileNet(Convolutional):
    """SuPerFed's MobileNet: four separable convolutions up to 512 kernels | 256 hidden units."""

    name: ClassVar[str] = "mobilenet"

    def body(self, channels: int) -> list["nn.Module"]:
        """Without padding, so images shrink fast: 64 -> 32 -> 30 -> 14 -> 6 -> 4 pixels."""
        from torch import nn

        layers = _rectified(channels, 32, 3, 2, 1, 1, track=False)
        for inputs, outputs, stride in ((32, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 1)):
            layers += _separable(inputs, outputs, stride, padding=0, track=False)
        return [*layers, nn.AdaptiveAvgPool2d(1)]

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Two linear layers."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, 256, classes], bias=False)


class MobileNetSmall(Convolutional):
    """FedEP's MobileNet: five separable convolutions up to 256 kernels | one layer."""

    name: ClassVar[str] = "mobilenet_small"

    def body(self, channels: int) -> list["nn.Module"]:
        """With running statistics: 32 -> 16 -> 8 pixels, then their mean."""
        from torch import nn

        layers = _rectified(channels, 32, 3, 1, 1, 1, track=True)
        for inputs, outputs, stride in (
            (32, 64, 1),
            (64, 128, 2),
            (128, 128, 1),
            (128, 256, 2),
            (256, 256, 1),
        ):
            layers += _separable(inputs, outputs, stride, padding=1, track=True)
        return [*layers, nn.AdaptiveAvgPool2d(1)]

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """One linear layer."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, classes])
