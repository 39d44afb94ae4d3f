"""The modules and shape arithmetic from which the classifiers are put together."""

import copy
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from unalike.errors import ConfigError


class Classifier(nn.Module):
    """A body and a head, told apart by the prefixes of their parameters' names."""

    head: tuple[str, ...] = ("classifier.",)

    def __init__(self, features: nn.Module, classifier: nn.Module) -> None:
        """``features`` is the body, ``classifier`` the head."""
        super().__init__()
        self.features, self.classifier = features, classifier

    def forward(self, x: Tensor) -> Tensor:
        """One logit per class for every row of ``x``."""
        logits: Tensor = self.classifier(self.features(x))
        return logits


class FirstToken(nn.Module):
    """An encoder of texts: its state at the first token."""

    def __init__(self, encoder: nn.Module) -> None:
        """``encoder`` takes tokens and a mask of those that are there."""
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (batch, length), of which 0 is padding, to (batch, width)."""
        out: Tensor = self.encoder(input_ids=x.long(), attention_mask=(x != 0).long())[0]
        return out[:, 0]


class Residual(nn.Module):
    """``body(x) + shortcut(x)``, or the body alone where there is no shortcut."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None) -> None:
        """Both must give the same shape."""
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        """The sum of the two paths."""
        y: Tensor = self.body(x)
        return y if self.shortcut is None else y + self.shortcut(x)


def linear_layers(
    widths: Sequence[int], *, bias: bool = True, norm: bool = False
) -> list[nn.Module]:
    """Linear layers between consecutive widths, each but the last with a ReLU, or also a norm."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers.append(nn.Linear(inputs, outputs, bias=bias))
        layers += [nn.BatchNorm1d(outputs), nn.ReLU()] if norm else [nn.ReLU()]
    return layers[: -2 if norm else -1]


def perceptron(
    widths: Sequence[int],
    *,
    head: int = 1,
    bias: bool = True,
    norm: bool = False,
    ending: Sequence[nn.Module] = (),
) -> Classifier:
    """A perceptron on flattened inputs whose last ``head`` linear layers are the head."""
    cut = len(widths) - head
    body = linear_layers(widths[:cut], bias=bias, norm=norm)
    if body:
        body += [nn.BatchNorm1d(widths[cut - 1]), nn.ReLU()] if norm else [nn.ReLU()]
    return Classifier(
        nn.Sequential(nn.Flatten(), *body),
        nn.Sequential(*linear_layers(widths[cut - 1 :], bias=bias, norm=norm), *ending),
    )


def final_softmax(model: str, classes: int) -> nn.Module:
    """A softmax before a loss that applies its own: a habit of some published code."""
    if classes == 1:
        raise ConfigError(
            f"{model} has one output, whose softmax is always 1: set double_softmax = false."
        )
    return nn.Softmax(dim=-1)


def output_width(features: nn.Module, shape: Sequence[int]) -> int:
    """Features per example that come out of a flattened body; 0 if it shrinks to nothing."""
    # On the meta device only shapes are computed. Two examples, since batch normalisation
    # refuses a single value per channel.
    probe = copy.deepcopy(features).to("meta").eval()
    try:
        return int(probe(torch.empty(2, *shape, device="meta")).shape[1])
    except RuntimeError:
        return 0


def smallest_size(features: nn.Module, shape: Sequence[int]) -> int:
    """The least height and width (or length) that the body does not shrink to nothing."""
    channels, places = shape[0], len(shape) - 1
    features = copy.deepcopy(features).to("meta")

    def fits(size: int) -> bool:
        return output_width(features, (channels, *[size] * places)) > 0

    return 1 + bisect_left(range(1, 1 << 14), True, key=fits)
