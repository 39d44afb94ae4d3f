"""Generators of examples by class: how each is fitted to a client's data, and what it draws.

Conditional VAE:  R(x, x^) + beta KL(q(z | x) || N(0, 1)),  x^ from z and y       (Sohn et al. 2015)
AC-GAN:  D:  BCE(D(x), 1) + BCE(D(G(z, y)), 0) + CE(C(x), y) + CE(C(G(z, y)), y)
         G:  BCE(D(G(z, y)), 1) + CE(C(G(z, y)), y)                              (Odena et al. 2017)
one step of each on every minibatch; z ~ U(-1, 1), examples in [-1, 1]
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from unalike import rng, tree
from unalike.batches import Batch, Batches
from unalike.gradient import gradient
from unalike.network import Network
from unalike.parts.descent import descend
from unalike.parts.optim import Optimizer
from unalike.rng import Key, Stream
from unalike.tree import Params

Reduction = Literal["sum", "mean"]


class Generator(Protocol):
    """What is trained by FedAvg, and draws examples."""

    def init(self, key: Key) -> Params:
        """Fresh weights and buffers."""
        ...

    def fit(self, w: Params, data: Batches, rate: Tensor) -> Params:
        """Weights and buffers after one client's minibatches."""
        ...

    def draw(self, w: Params, y: Tensor, key: Key) -> Tensor:
        """An example in [0, 1] for every label."""
        ...


def _one_hot(y: Tensor, classes: int, like: Tensor) -> Tensor:
    return (y[:, None] == torch.arange(classes, device=y.device)).to(like.dtype)


def _own(w: Params, prefix: str) -> Params:
    return {k.removeprefix(prefix): v for k, v in w.items() if k.startswith(prefix)}


def _named(w: Params, prefix: str) -> Params:
    return {prefix + k: v for k, v in w.items()}


def _mean(each: Tensor, real: Tensor) -> Tensor:
    return (each * real).sum() / real.sum().clamp(min=1)


@dataclass(frozen=True)
class ConditionalVae:
    """Encoder and decoder of one network."""

    network: Network
    opt: Optimizer
    classes: int
    latent: int
    beta: float = 1.0
    reduction: Reduction = "sum"

    def init(self, key: Key) -> Params:
        """As any network of this package begins."""
        return self.network.init(key)

    def fit(self, w: Params, data: Batches, rate: Tensor) -> Params:
        """Descent on R + beta KL."""
        buffers, theta = tree.split(w, self.network.buffers)
        end = descend(self.loss, self.opt, theta, buffers, data, rate)
        return {**end.theta, **end.buffers}

    def loss(self, theta: Params, buffers: Params, batch: Batch, given: Any) -> tuple[Tensor, Any]:
        """R + beta KL over the real rows."""
        key = rng.fold_in(batch.key, Stream.METHOD)
        noise = rng.normal(key, len(batch.x), self.latent).to(batch.x)
        label, w = _one_hot(batch.y, self.classes, batch.x), {**theta, **buffers}
        out, new = self.network.train(w, batch.x, batch.key, batch.real, noise, label)
        return _mean(self.terms(out, batch.x), batch.real), new

    def terms(self, out: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
        """R + beta KL of every row, from (reconstruction, mean, sigma)."""
        again, mean, sigma = out
        squares = ((again - x) ** 2).flatten(1)
        reconstruction = squares.sum(1) if self.reduction == "sum" else squares.mean(1)
        divergence = 0.5 * (mean**2 + sigma**2 - 1 - 2 * sigma.log()).sum(1)
        return reconstruction + self.beta * divergence

    @cached_property
    def decoder(self) -> Network:
        """The part that draws."""
        return self.network.part("decoder")

    def draw(self, w: Params, y: Tensor, key: Key) -> Tensor:
        """Decoded from z ~ N(0, 1)."""
        own = _own(w, "decoder.")
        like = next(iter(own.values()))
        z = rng.normal(key, len(y), self.latent).to(like)
        return self.decoder.eval(own, torch.cat([z, _one_hot(y, self.classes, like)], 1))


class Players(NamedTuple):
    """Where both networks of a GAN are."""

    g: Params
    d: Params
    g_buffers: Params
    d_buffers: Params
    g_opt: Any
    d_opt: Any


@dataclass(frozen=True)
class AuxiliaryGan:
    """A generator, and a discriminator that also classifies."""

    generator: Network
    discriminator: Network
    opt: Optimizer
    classes: int
    latent: int

    def init(self, key: Key) -> Params:
        """Matrices and kernels N(0, 0.02^2), as GANs of this kind begin."""
        w = {
            **_named(self.generator.init(rng.fold_in(key, 0)), "g."),
            **_named(self.discriminator.init(rng.fold_in(key, 1)), "d."),
        }

        def small(i: int, v: Tensor) -> Tensor:
            return 0.02 * rng.normal(rng.fold_in(key, 2 + i), *v.shape).to(v) if v.ndim > 1 else v

        return {k: small(i, v) for i, (k, v) in enumerate(w.items())}

    def fit(self, w: Params, data: Batches, rate: Tensor) -> Params:
        """A step of the discriminator, then one of the generator, on every minibatch."""
        gb, g = tree.split(_own(w, "g."), self.generator.buffers)
        db, d = tree.split(_own(w, "d."), self.discriminator.buffers)
        at = Players(g, d, gb, db, self.opt.init(g), self.opt.init(d))
        end = data.fold(self.step, at, rate)
        g, d = {**end.g, **end.g_buffers}, {**end.d, **end.d_buffers}
        return {**_named(g, "g."), **_named(d, "d.")}

    def step(self, at: Players, batch: Batch, rate: Tensor) -> Players:
        """Both steps on one minibatch."""
        label = _one_hot(batch.y, self.classes, batch.x)
        key = rng.fold_in(batch.key, Stream.METHOD)
        z = (2 * rng.uniform(rng.fold_in(key, 0), len(batch.x), self.latent) - 1).to(batch.x)
        z = torch.cat([z, label], 1)
        keys = [rng.fold_in(key, i) for i in (1, 2, 3)]

        def made(g: Params, key: Key) -> tuple[Tensor, Params]:
            return self.generator.train({**g, **at.g_buffers}, z, key, batch.real)

        fake = made(at.g, keys[0])[0].detach()

        def judged(d: Params) -> tuple[Tensor, Params]:
            w = {**d, **at.d_buffers}
            said, new = self.discriminator.train(w, 2 * batch.x - 1, keys[0], batch.real)
            other, new = self.discriminator.train({**d, **new}, fake, keys[1], batch.real)
            return self.verdict(said, 1, batch) + self.verdict(other, 0, batch), new

        slope, db = gradient(judged, at.d, passes=2)
        d, d_opt = self.opt.update(slope, at.d_opt, at.d, rate)

        def fooled(g: Params) -> tuple[Tensor, Params]:
            x, new = made(g, keys[0])
            said, _ = self.discriminator.train({**d, **db}, x, keys[2], batch.real)
            return self.verdict(said, 1, batch), new

        slope, gb = gradient(fooled, at.g)
        g, g_opt = self.opt.update(slope, at.g_opt, at.g, rate)
        return Players(g, d, gb, db, g_opt, d_opt)

    def verdict(self, said: Tensor, real: int, batch: Batch) -> Tensor:
        """How wrong a discriminator is about rows that are real or not, and about their class."""
        truth = torch.full_like(said[:, 0], float(real))
        about = F.binary_cross_entropy_with_logits(said[:, 0], truth, reduction="none")
        return _mean(about + F.cross_entropy(said[:, 1:], batch.y, reduction="none"), batch.real)

    def draw(self, w: Params, y: Tensor, key: Key) -> Tensor:
        """Made from z ~ U(-1, 1)."""
        own = _own(w, "g.")
        like = next(iter(own.values()))
        z = (2 * rng.uniform(key, len(y), self.latent) - 1).to(like)
        return (
            self.generator.eval(own, torch.cat([z, _one_hot(y, self.classes, like)], 1)) + 1
        ) / 2
