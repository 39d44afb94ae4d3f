"""ResNet-10 with group normalisation, as in FedEvg (Hahn et al.), where -logits are energies.

No activation follows the sum of a block. The authors' clients use SiLU and a spectral norm on the
last layer, their classifiers of synthetic data no spectral norm.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from unalike.models.base import Convolutional

if TYPE_CHECKING:
    from torch import nn


class ResNet10(Convolutional):
    """FedEvg's ResNet-10: group normalisation, four residual blocks | one layer."""

    name: ClassVar[str] = "resnet10"

    width: int = Field(default=64, ge=4, multiple_of=4, description="kernels of the first layer")
    activation: Literal["silu", "relu"] = Field(default="silu", description="silu or relu")
    spectral: bool = Field(
        default=False, description="divide the last layer's matrix by its largest singular value"
    )

    def act(self) -> "nn.Module":
        """The activation between layers."""
        from torch import nn

        return nn.SiLU() if self.activation == "silu" else nn.ReLU()

    def block(self, inputs: int, outputs: int, stride: int) -> "nn.Module":
        """Two convolutions with a shortcut, which projects where the shape changes."""
        from torch import nn

        from unalike.models.classifier import Residual

        def convolution(inputs: int, kernel: int, stride: int) -> list[nn.Module]:
            return [
                nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
                nn.GroupNorm(outputs // 2, outputs),
            ]

        return Residual(
            nn.Sequential(*convolution(inputs, 3, stride), self.act(), *convolution(outputs, 3, 1)),
            nn.Identity() if inputs == outputs else nn.Sequential(*convolution(inputs, 1, stride)),
        )

    def body(self, channels: int) -> list["nn.Module"]:
        """Four blocks: 32 -> 32 -> 16 -> 8 -> 4 pixels."""
        from torch import nn

        h = self.width
        return [
            nn.Conv2d(channels, h, 3, padding=1, bias=False),
            nn.GroupNorm(h // 4, h),
            self.act(),
            self.block(h, h, 1),
            self.block(h, 2 * h, 2),
            self.block(2 * h, 4 * h, 2),
            self.block(4 * h, 8 * h, 2),
            nn.GroupNorm(h, 8 * h),
            self.act(),
        ]

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """One linear layer."""
        from torch import nn

        from unalike.models.spectral import SpectralLinear

        return [SpectralLinear(width, classes) if self.spectral else nn.Linear(width, classes)]
