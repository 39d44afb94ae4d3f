"""Training augmentation: every training row is altered a little, differently in every minibatch.

images   shift by whole pixels (a padded picture cropped at random), mirror, turn, colours, noise
text     some symbols are replaced by others of the same example    (Xie et al. 2017, unigram noise)
audio    shift in time, gain, noise
numbers  noise

Draws depend only on the step's key and the row's position, so both engines draw the same. Rows used
for testing or measuring stay unchanged.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from unalike import rng
from unalike.parts.augmentation.transform import Transform
from unalike.parts.augmentation.variants import recolour, warp
from unalike.rng import Key
from unalike.settings import Settings
from unalike.tree import Params, Tree

_STREAM = 5  # of a transform's key; FedAug's variants fold in 0, 1 and 2


class Augmentation(Settings):
    """Training rows are used as they are."""

    def misfit(self, shape: tuple[int, ...], whole: bool) -> str:
        """Why examples of this shape, of ``whole`` numbers or not, cannot be altered so."""
        return ""

    def __call__(self, x: Tensor, key: Key) -> Tensor:
        """The features of a minibatch, every row in its own way."""
        return x


class Images(Augmentation):
    """Images are shifted, mirrored and, if asked for, turned and recoloured."""

    crop: int = Field(
        default=4, ge=0, description="largest shift in pixels; the border is filled with 0"
    )
    flip: bool = Field(default=True, description="mirror half of the images, at random")
    rotation: float = Field(
        default=0.0, ge=0, le=180, description="largest turn to either side, in degrees"
    )
    jitter: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="brightness, contrast and, with three channels, saturation: factors within 1 "
        "± jitter",
    )
    noise: float = Field(default=0.0, ge=0, description="standard deviation of added noise")

    def misfit(self, shape: tuple[int, ...], whole: bool) -> str:
        """Channels, rows, columns."""
        return "" if len(shape) == 3 and not whole else "alters pictures"

    def __call__(self, x: Tensor, key: Key) -> Tensor:
        """Each picture of [n, c, h, w]."""
        u = rng.uniform(rng.fold_in(key, 0), len(x), 6).to(x.dtype)
        if self.crop:
            for dim in (2, 3):
                by = ((2 * self.crop + 1) * u[:, dim - 2]).floor().long() - self.crop
                x = moved(x, by, dim)
        if self.flip:
            x = torch.where((u[:, 2] < 0.5)[:, None, None, None], x.flip(3), x)
        if self.rotation:
            angle = (2 * rng.uniform(rng.fold_in(key, 2), len(x), 1)[:, 0].to(x.dtype) - 1) * (
                math.pi * self.rotation / 180
            )
            x = warp(x, torch.zeros_like(angle), angle, x.new_zeros(len(x), 8))
        if self.jitter:
            b, c, s = (1 + self.jitter * (2 * u[:, 3:] - 1)).unbind(1)
            x = recolour(x, b, c, s, torch.zeros_like(b)) if x.shape[1] == 3 else _lit(x, b, c)
        return _noisy(x, self.noise, key)


class Text(Augmentation):
    """Some tokens are replaced by others from the same example."""

    drop: float = Field(default=0.1, ge=0, lt=1, description="probability that a token is replaced")

    def misfit(self, shape: tuple[int, ...], whole: bool) -> str:
        """A row of symbols."""
        return "" if whole and len(shape) == 1 else "alters sequences of tokens"

    def __call__(self, x: Tensor, key: Key) -> Tensor:
        """Each sequence of [n, T]."""
        n, T = x.shape
        lost = rng.uniform(rng.fold_in(key, 0), n, T) < self.drop
        other = (rng.uniform(rng.fold_in(key, 1), n, T) * T).long()
        return torch.where(lost, x.gather(1, other), x)


class Audio(Augmentation):
    """Sounds start earlier or later, become louder or softer, and get noise."""

    shift: float = Field(
        default=0.1, ge=0, lt=1, description="largest shift in time, as a share of the length"
    )
    gain: float = Field(default=0.1, ge=0, lt=1, description="loudness: a factor within 1 ± gain")
    noise: float = Field(default=0.005, ge=0, description="standard deviation of added noise")

    def misfit(self, shape: tuple[int, ...], whole: bool) -> str:
        """Channels and time, or time alone."""
        return "" if len(shape) in (1, 2) and not whole else "alters sounds"

    def __call__(self, x: Tensor, key: Key) -> Tensor:
        """Each sound of [n, ..., T]."""
        u = 2 * rng.uniform(rng.fold_in(key, 0), len(x), 2).to(x.dtype) - 1
        by = (self.shift * x.shape[-1] * u[:, 0]).round().long()
        louder = (1 + self.gain * u[:, 1]).reshape(-1, *[1] * (x.ndim - 1))
        return _noisy(louder * moved(x, by, x.ndim - 1), self.noise, key)


class Numbers(Augmentation):
    """Every number gets noise."""

    noise: float = Field(default=0.05, gt=0, description="standard deviation of added noise")

    def misfit(self, shape: tuple[int, ...], whole: bool) -> str:
        """Any numbers with fractions."""
        return "alters numbers with fractions" if whole else ""

    def __call__(self, x: Tensor, key: Key) -> Tensor:
        """Each row."""
        return _noisy(x, self.noise, key)


AUGMENTATIONS: dict[str, type[Augmentation]] = {
    "none": Augmentation,
    "images": Images,
    "text": Text,
    "audio": Audio,
    "numbers": Numbers,
}


@dataclass(frozen=True)
class Augmented:
    """A transform of clients' data that also alters every row."""

    augmentation: Augmentation
    base: Transform | None = None

    def inherit(self, model: Params) -> Self:
        """With what the other transform takes from the stage before, if anything."""
        inherit = getattr(self.base, "inherit", None)
        return self if inherit is None else replace(self, base=inherit(model))

    @property
    def handed(self) -> Tree:
        """What clients receive for the other transform."""
        return getattr(self.base, "handed", ())

    def repeats(self, labels: np.ndarray, classes: int, key: Key) -> np.ndarray:
        """Those of the other transform."""
        if self.base is None:
            return np.zeros(0, dtype=np.int64)
        return self.base.repeats(labels, classes, key)

    def apply(self, x: Tensor, altered: Tensor, key: Key) -> Tensor:
        """First as the other transform does, then every row."""
        x = x if self.base is None else self.base.apply(x, altered, key)
        return self.augmentation(x, rng.fold_in(key, _STREAM))

    def note(self, counts: np.ndarray) -> str:
        """The note of the other transform."""
        return "" if self.base is None else self.base.note(counts)

    def effect(self, counts: np.ndarray) -> dict[str, Any]:
        """Of the other transform: labels stay as they are here."""
        return {} if self.base is None else self.base.effect(counts)


def moved(x: Tensor, by: Tensor, dim: int) -> Tensor:
    """Every row of ``x`` moved by its own number of places along ``dim``, zeros coming in.

    >>> moved(torch.tensor([[1, 2, 3], [1, 2, 3]]), torch.tensor([1, -1]), 1)
    tensor([[0, 1, 2],
            [2, 3, 0]])
    """
    size = x.shape[dim]
    place = torch.arange(size, device=x.device) - by[:, None]
    shape = [len(x), *(size if d == dim else 1 for d in range(1, x.ndim))]
    inside = ((place >= 0) & (place < size)).reshape(shape)
    index = place.clamp(0, size - 1).reshape(shape).expand_as(x)
    return torch.where(inside, x.gather(dim, index), torch.zeros_like(x))


def _lit(x: Tensor, brightness: Tensor, contrast: Tensor) -> Tensor:
    """Pictures without colours: x <- b x;  x <- m + c (x - m), m the mean of the picture."""
    b, c = (v[:, None, None, None] for v in (brightness, contrast))
    x = b * x
    mean = x.mean((1, 2, 3), keepdim=True)
    return mean + c * (x - mean)


def _noisy(x: Tensor, noise: float, key: Key) -> Tensor:
    if not noise:
        return x
    return x + noise * rng.normal(rng.fold_in(key, 9), *x.shape).to(x.dtype)
