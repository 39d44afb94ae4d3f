"""A classifier as an energy, fitted to real examples beside a set of synthetic ones.

E(x, y) = -f(x)[y], f the logits              (joint; marginal: -log sum_y exp f(x)[y])
x~ <- x~ - gamma dE/dx(x~) + sigma noise      (R Langevin steps per minibatch)
then minimise  mean E(real) - mean E(x~) + CE(real) + c CE(synthetic)

A chain starts at the client's copy of the set, which keeps where it ends (persistent contrastive
divergence), at the real examples (contrastive divergence), or at noise.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unalike import rng, tree
from unalike.batches import Batch, Batches
from unalike.gradient import gradient
from unalike.models.spectral import SpectralLinear, divided, without_spectral_norm
from unalike.parts.optim import Adam, Optimizer
from unalike.rng import Key, Stream
from unalike.tasks import MultiClass
from unalike.tree import Params

Of = Literal["joint", "marginal"]
Start = Literal["persistent", "data", "noise"]
Batched = Literal["downloaded", "updated"]


class Fit(NamedTuple):
    """An energy in training, and the refined copy of the synthetic set."""

    theta: Params
    buffers: Params
    refined: Tensor
    opt: Any


class Chain(NamedTuple):
    """Where Langevin chains are, the labels of their energies, and which of them count."""

    x: Tensor
    y: Tensor
    used: Tensor


class Given(NamedTuple):
    """What a step reads and does not change: the synthetic set and the rate."""

    x: Tensor
    y: Tensor
    rate: Tensor


@dataclass(frozen=True)
class Energy:
    """The energy of a classifier, and how it is trained."""

    task: MultiClass
    opt: Optimizer = Adam(1e-3, b1=0.5, weight_decay=1e-4)
    energy: Of = "joint"
    chain: int = 1  # R
    chain_start: Start = "persistent"
    chain_step: float = 1.0  # gamma
    chain_noise: float = 0.01  # sigma
    synthetic_ce: float = 0.1  # c
    ce_on: Batched = "downloaded"
    clip_gradient: float = 3.0
    clip_pixels: bool = True

    @property
    def classifier(self) -> MultiClass:
        """The same network with ordinary layers in place of spectrally normalised ones."""
        network = self.task.network.changed(without_spectral_norm)
        return replace(self.task, network=network)

    def ordinary(self, w: Params) -> Params:
        """What ``classifier`` computes with as the energy does with ``w``."""
        return divided(w, self.task.network.leaves(SpectralLinear, "weight"))

    def __call__(self, w: Params, x: Tensor, y: Tensor) -> Tensor:
        """E of each example."""
        logits = self.task.logits(w, x)
        if self.energy == "marginal":
            return -logits.logsumexp(1)
        return -logits.gather(1, y[:, None])[:, 0]

    def slope(self, w: Params, x: Tensor, y: Tensor) -> Tensor:
        """dE/dx at each example, clipped."""
        g, _ = gradient(lambda x: (self(w, x, y).sum(), ()), x)
        return g.clamp(-self.clip_gradient, self.clip_gradient)

    def bounded(self, x: Tensor) -> Tensor:
        """Features where those of the data are."""
        return x.clamp(0, 1) if self.clip_pixels else x

    def fit(self, key: Key, x: Tensor, y: Tensor, data: Batches, rate: Tensor) -> Params:
        """Fresh weights, trained on all minibatches beside the synthetic set ``x``, ``y``."""
        fresh = tree.map(lambda w: w.to(x.dtype), self.task.init(key))
        theta, buffers = self.task.split(fresh)
        at = Fit(theta, buffers, x, self.opt.init(theta))
        end = data.fold(self.step, at, Given(x, y, rate))
        return {**end.theta, **end.buffers}

    def step(self, at: Fit, batch: Batch, given: Given) -> Fit:
        """Refine as many examples as there are real ones, then descend on both."""
        size = min(len(batch.real), len(given.y))
        chosen = rng.permutation(rng.fold_in(batch.key, Stream.METHOD), len(given.y))[:size]
        # A short batch pairs with as few synthetic examples; the others sit this step out.
        used = (torch.arange(size, device=chosen.device) < batch.real.sum()).to(at.refined.dtype)
        copy = Chain(at.refined[chosen], given.y[chosen], used)
        old = copy.x if self.ce_on == "updated" else given.x[chosen]
        end = self._walk({**at.theta, **at.buffers}, self._start(copy, batch), batch)

        def objective(theta):  # type: ignore[no-untyped-def]
            w = {**theta, **at.buffers}
            ce, new = self.task.loss(w, batch)
            real = _mean(self(w, batch.x, batch.y), batch.real)
            fake = _mean(self(w, end.x, end.y), end.used)
            logits = self.task.logits(w, old)
            synthetic = _mean(F.cross_entropy(logits, copy.y, reduction="none"), used)
            return real - fake + ce + self.synthetic_ce * synthetic, new

        g, buffers = gradient(objective, at.theta, passes=3)  # real, refined, synthetic
        theta, opt = self.opt.update(g, at.opt, at.theta, given.rate)
        if self.chain_start != "persistent":
            return Fit(theta, buffers, at.refined, opt)
        mask = used.reshape(-1, *[1] * (end.x.ndim - 1)) > 0
        x = torch.where(mask, end.x, copy.x)
        return Fit(theta, buffers, at.refined.index_copy(0, chosen, x), opt)

    def _start(self, copy: Chain, batch: Batch) -> Chain:
        """Where the chains of a minibatch begin."""
        if self.chain_start == "data":
            return Chain(batch.x, batch.y, batch.real)
        if self.chain_start == "noise":
            noise = rng.normal(rng.fold_in(batch.key, Stream.CHAIN_START), *copy.x.shape)
            return copy._replace(x=noise.to(copy.x.dtype))
        return copy

    def _walk(self, w: Params, at: Chain, batch: Batch) -> Chain:
        """R Langevin steps down the energy."""
        x = at.x
        for i in range(self.chain):
            noise = rng.normal(rng.fold_in(batch.key, Stream.CHAIN + i), *x.shape)
            g = self.slope(w, x, at.y)
            x = x - self.chain_step * g + self.chain_noise * noise
        return at._replace(x=self.bounded(x))


def _mean(values: Tensor, used: Tensor) -> Tensor:
    return (values * used).sum() / used.sum().clamp(min=1)
