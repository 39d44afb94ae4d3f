"""The beta-VAE (Higgins et al. 2017) as a task: what is learned is to reconstruct.

z = mu + sigma noise;   R = sum over features of (x^ - x)^2
KL = -1/2 sum over latents of (1 + log sigma^2 - mu^2 - sigma^2)
training: R + beta KL, z sampled;   evaluation: R + KL whatever beta is, z sampled or z = mu
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from unalike import rng
from unalike.batches import Batch
from unalike.metrics.reconstruction import per_client
from unalike.network import Network
from unalike.rng import Key, Stream
from unalike.tasks.base import Judged, NetworkTask
from unalike.tree import Params


@dataclass(frozen=True)
class Autoencoding(NetworkTask):
    """A variational autoencoder; labels have no effect and there is no accuracy.

    An ensemble of autoencoders has the mean of their terms.
    """

    headline: ClassVar[str] = "loss"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "reconstruction", "kl")
    ensembles: ClassVar[tuple[str, ...]] = ("probabilities", "weights")
    called: ClassVar[str] = "an autoencoder"

    latent: int = 2
    beta: float = 1.0
    sampled: bool = True  # whether a row is judged by a sampled z, else by the mean

    @cached_property
    def encoder(self) -> Network:
        """The part that latent variables come from; its leaves have no prefix."""
        return self.network.part("encoder")

    @property
    def draws(self) -> int:
        """A number for each latent variable, unless z is the mean."""
        return self.latent if self.sampled else 0

    def ignorance(self, classes: int, numbers: int) -> float:
        """Every number of an example is as likely high as low."""
        return max(math.log(max(classes, 2)), math.log(2) * numbers)

    def training(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """R + beta KL of every row, with a sampled z."""
        noise = self._noise(batch, Stream.TRAINING)
        out, buffers = self.network.train(w, batch.x, batch.key, batch.real, noise)
        reconstruction, divergence = terms(out, batch.x)
        return reconstruction + self.beta * divergence, buffers

    def outputs(self, w: Params, x: Tensor, noise: Tensor, real: Tensor | None = None) -> Tensor:
        """[n, 2]: R and KL of every row, in evaluation mode."""
        if not self.draws:
            noise = x.new_zeros(len(x), self.latent)
        return torch.stack(terms(self.network.eval(w, x, real, noise.to(x.dtype)), x), 1)

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """R + KL of every row, in evaluation mode."""
        return self.outputs(w, batch.x, self._noise(batch, Stream.JUDGING)).sum(1)

    def measure(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        """Means of the terms over rows."""
        return Judged(per_client(outputs, owner, n), None)

    def misfit(self, x: Tensor, y: Tensor, classes: int, data: str) -> str:
        """Only numbers have a distance."""
        if x.is_floating_point():
            return ""
        return f"reconstructs numbers, and the examples of '{data}' are tokens; use another model"

    def latents(self, w: Params, batch: Batch, sampled: bool) -> Tensor:
        """[B, latent]: z of every row, in evaluation mode; without ``sampled`` its mean."""
        own = {k.removeprefix("encoder."): v for k, v in w.items() if k.startswith("encoder.")}
        mean, log_sigma = self.encoder.eval(own, batch.x, batch.real)
        if not sampled:
            return mean
        return mean + log_sigma.exp() * self._noise(batch, Stream.LATENTS)

    def _noise(self, batch: Batch, stream: Stream) -> Tensor:
        key: Key = rng.fold_in(batch.key, stream)
        return rng.normal(key, len(batch.x), self.latent).to(batch.x.dtype)


def terms(out: tuple[Tensor, Tensor, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """(R, KL) of every row, from (reconstruction, mean, log sigma)."""
    again, mean, log_sigma = out
    reconstruction = ((again - x) ** 2).flatten(1).sum(1)
    divergence = -0.5 * (1 + 2 * log_sigma - mean**2 - (2 * log_sigma).exp()).sum(1)
    return reconstruction, divergence
