"""M5 (Dai et al. 2017) for raw waveforms, as in AAggFF (Hahn et al. 2024) for SpeechCommands."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike.models.base import Convolutional

if TYPE_CHECKING:
    from torch import nn


class M5(Convolutional):
    """AAggFF's M5: four convolutions over the waveform, batch normalisation | one layer."""

    name: ClassVar[str] = "m5"
    takes: ClassVar[str] = "audio (channels, samples)"
    axes: ClassVar[int | None] = 2

    width: int = Field(default=64, ge=1, description="kernels of the first layer")

    def body(self, channels: int) -> list["nn.Module"]:
        """Every layer pools by 4; the mean over time follows the last."""
        from torch import nn

        h = self.width
        convolutions = (
            nn.Conv1d(channels, h, 80, stride=4),
            nn.Conv1d(h, h, 3, padding=1),
            nn.Conv1d(h, 2 * h, 3, padding=1),
            nn.Conv1d(2 * h, 4 * h, 3, padding=1),
        )
        layers: list[nn.Module] = []
        for c in convolutions:
            layers += [c, nn.BatchNorm1d(c.out_channels), nn.ReLU(), nn.MaxPool1d(4)]
        return [*layers, nn.AdaptiveAvgPool1d(1)]

    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """One linear layer."""
        from unalike.models.classifier import linear_layers

        return linear_layers([width, classes])
