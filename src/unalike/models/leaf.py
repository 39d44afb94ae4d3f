"""The network of the LEAF benchmark (Caldas et al. 2018) for CelebA, as in AAggFF (2024)."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike.models.base import Convolutional

if TYPE_CHECKING:
    from torch import nn


class LeafCNN(Convolutional):
    """LEAF's CelebA network: four 3x3 convolutions, group normalisation | one layer."""

    name: ClassVar[str] = "leaf_cnn"

    pool_padding: int = Field(
        default=0, ge=0, le=1, description="padding of the poolings; AAggFF's code has 1"
    )

    def body(self, channels: int) -> list["nn.Module"]:
        """Four convolutions, 84 -> 42 -> 21 -> 10 -> 5 pixels, brought to 5x5."""
        from torch import nn

        layers: list[nn.Module] = []
        for groups in (32, 16, 8, 4):
            layers += [
                nn.Conv2d(channels, 32, 3, padding=1, bias=False),
                nn.GroupNorm(groups, 32),
                nn.MaxPool2d(2, padding=self.pool_padding),
                nn.ReLU(),
            ]
            channels = 32
        return [*layers, nn.AdaptiveAvgPool2d(5)]

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """One linear layer."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, classes])
