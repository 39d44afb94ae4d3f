"""VGG9 (Simonyan & Zisserman 2015, shortened), as in SuPerFed (Hahn et al. 2022) for FEMNIST."""

from typing import TYPE_CHECKING, ClassVar

from unalike.models.base import Convolutional

if TYPE_CHECKING:
    from torch import nn


class VGG9(Convolutional):
    """SuPerFed's VGG9: six 3x3 convolutions of 16 to 512 kernels | 256 hidden units, no biases."""

    name: ClassVar[str] = "vgg9"

    def body(self, channels: int) -> list["nn.Module"]:
        """Six convolutions, four poolings: 28 -> 14 -> 7 -> 3 -> 1 pixels."""
        from torch import nn

        layers: list[nn.Module] = []
        for outputs in (16, 32, 64, 128, 256, 512):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.ReLU()]
            if outputs not in (64, 256):
                layers.append(nn.MaxPool2d(2))
            channels = outputs
        return layers

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Two linear layers."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, 256, classes], bias=False)
