"""Noise that nobody can subtract: drawn from a secret, where a simulation draws from its seed.

u + z C xi,     xi = Box-Muller of ChaCha20 under HMAC-SHA256(secret, purpose and digest of u)

The seed of a recipe is known to everybody who takes part. The secret never leaves the folder of
whoever draws the noise. Because noise is bound to u, the same update always gets the same noise, so
nobody can average it away by asking repeatedly; a different update gets different noise, so the
difference of two answers reveals nothing.
"""

import hashlib
import hmac
import os
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_bytes

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from torch import Tensor

from unalike import tree
from unalike.algorithms.dp import CentralDp
from unalike.cohort import Cohort
from unalike.errors import RunError
from unalike.packed import memory as bytes_of
from unalike.parts.clip import clip
from unalike.parts.privacy.gaussian import Clipped
from unalike.recipe import Recipe
from unalike.rng import Key
from unalike.tree import Tree

SECRET = 32  # bytes
CHUNK = 1 << 20  # numbers that are drawn at once


class Source:
    """A secret on disk, readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        """Made where there is none."""
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
                f.write(token_bytes(SECRET))
        self._secret = path.read_bytes()
        if len(self._secret) != SECRET:
            raise RunError(f"'{path}' is damaged; restore it from a copy, or delete it.")

    def key(self, purpose: str) -> Key:
        """For draws that are few, such as the noise on a survey."""
        raw = self._bound(purpose)[:8]
        return torch.tensor(int.from_bytes(raw, "big", signed=True), dtype=torch.int64)

    def noisy(self, up: Tree, deviation: float, purpose: str) -> Tree:
        """An update plus Gaussian noise, summed in double precision; untouched without any."""
        if not deviation:
            return up
        told = hashlib.sha256()
        for x in tree.leaves(up):
            told.update(bytes_of(x.contiguous()))
        stream = Cipher(ChaCha20(self._bound(purpose, told.digest()), bytes(16)), None).encryptor()

        def normal(count: int) -> Tensor:
            pairs = (count + 1) // 2
            bits = np.frombuffer(stream.update(bytes(16 * pairs)), np.uint64).reshape(2, pairs)
            u = ((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # in (0, 1]
            length, angle = np.sqrt(-2 * np.log(u[0])), 2 * np.pi * u[1]
            both = np.concatenate([length * np.cos(angle), length * np.sin(angle)])
            return torch.from_numpy(both)[:count]

        def added(x: Tensor) -> Tensor:
            parts = x.reshape(-1).split(CHUNK)
            sums = [(part.double() + deviation * normal(len(part))).to(x.dtype) for part in parts]
            return torch.cat(sums).reshape(x.shape)

        return tree.map(added, up)

    def _bound(self, purpose: str, told: bytes = b"") -> bytes:
        return hmac.digest(self._secret, purpose.encode() + b"\0" + told, "sha256")


@dataclass(frozen=True)
class Hidden(Clipped):
    """A site's own noise on its update."""

    source: Source | None = None

    def encode(self, up: Tree, memory: tuple[()], key: Key) -> tuple[Tree, tuple[()]]:
        """The update as it is sent."""
        assert self.source is not None, "made by hidden()"
        clipped = clip(up, self.norm)
        return self.source.noisy(clipped, self.noise * self.norm, "update"), memory


@dataclass(frozen=True)
class Release:
    """The coordinator's own noise on the mean of all updates."""

    rule: CentralDp
    source: Source

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """The noisy mean as a stack of one row, with weight one."""
        mean, deviation = self.rule.mean(ups), self.rule.deviation(len(p))
        sent = self.source.noisy(mean, deviation, "release")
        return tree.map(lambda x: x[None], sent), torch.ones_like(p[:1])


def hidden(recipe: Recipe, source: Source | None) -> Recipe:
    """A recipe whose noise is drawn from a secret; without one, from the seed as usual."""
    if source is None:
        return recipe
    channel = tuple(
        Hidden(c.norm, c.noise, source) if type(c) is Clipped and c.noise else c
        for c in recipe.channel
    )
    filters = tuple(Release(f, source) if isinstance(f, CentralDp) else f for f in recipe.filters)
    return replace(recipe, channel=channel, filters=filters)
