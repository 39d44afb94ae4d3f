"""ResNet9 (He et al. 2016, shortened), as in SuPerFed (Hahn et al. 2022) for CIFAR-100."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike.models.base import Convolutional

if TYPE_CHECKING:
    from torch import nn


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list["nn.Module"]:
    """A convolution normalised by the statistics of the batch alone, never by running ones."""
    from torch import nn

    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs, track_running_stats=False),
    ]


class ResNet9(Convolutional):
    """SuPerFed's ResNet9: four residual blocks of 64 to 512 kernels | 256 hidden units."""

    name: ClassVar[str] = "resnet9"

    skip_first: bool = Field(
        default=True,
        description="an identity shortcut around the first block; the authors' code has none",
    )

    def block(self, inputs: int, outputs: int, stride: int) -> list["nn.Module"]:
        """Two convolutions with a shortcut, which projects where the shape changes."""
        from torch import nn

        from unalike.models.classifier import Residual

        body = nn.Sequential(
            *_convolution(inputs, outputs, 3, stride),
            nn.ReLU(),
            *_convolution(outputs, outputs, 3),
        )
        shortcut: nn.Module | None
        if inputs != outputs:
            shortcut = nn.Sequential(*_convolution(inputs, outputs, 1, stride))
        else:
            shortcut = nn.Identity() if self.skip_first else None
        return [Residual(body, shortcut), nn.ReLU()]

    def body(self, channels: int) -> list["nn.Module"]:
        """A strided convolution, four blocks, the mean over all pixels."""
        from torch import nn

        return [
            *_convolution(channels, 64, 3, 2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
            *self.block(64, 64, 1),
            *self.block(64, 128, 1),
            *self.block(128, 256, 2),
            *self.block(256, 512, 2),
            nn.AdaptiveAvgPool2d(1),
        ]

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """Two linear layers."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, 256, classes], bias=False)
