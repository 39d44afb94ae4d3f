"""Stacked LSTM language models: the next character (SuPerFed) or every next word (AAggFF).

SuPerFed, Hahn et al. 2022: 8, 256, no biases. AAggFF on Reddit, Hahn et al. 2024: embedding = 200,
hidden = 256, bias = true, every_step = true, 10,000 words.
"""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike.errors import ConfigError
from unalike.models.base import Model, Shape

if TYPE_CHECKING:
    from torch import nn


class StackedLSTM(Model):
    """A stacked LSTM over tokens: embedding, LSTM layers | one layer."""

    name: ClassVar[str] = "stacked_lstm"
    takes: ClassVar[str] = "sequences of tokens (length,)"
    axes: ClassVar[int | None] = 1

    vocabulary: int | None = Field(
        default=None, ge=1, description="number of tokens; as many as classes unless given"
    )
    embedding: int = Field(default=8, ge=1, description="size of a token's embedding")
    hidden: int = Field(default=256, ge=1, description="units of every LSTM layer")
    layers: int = Field(default=2, ge=1, description="LSTM layers")
    bias: bool = Field(default=False, description="whether LSTM and linear layers have biases")
    every_step: bool = Field(
        default=False, description="predict after every step instead of after the last one"
    )

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """Logits (batch, classes), or (batch, steps, classes) with ``every_step``."""
        from torch import nn

        from unalike.models.classifier import Classifier
        from unalike.models.recurrent import LSTM, LastStep

        if self.vocabulary is None and classes == 1:
            raise ConfigError(
                f"{self.name} cannot take the size of its vocabulary from a task with one "
                "output: set vocabulary to the number of tokens."
            )
        features = nn.Sequential(
            nn.Embedding(self.vocabulary or classes, self.embedding),
            LSTM(self.embedding, self.hidden, self.layers, bias=self.bias),
        )
        if not self.every_step:
            features.append(LastStep())
        return Classifier(features, nn.Linear(self.hidden, classes, bias=self.bias))
