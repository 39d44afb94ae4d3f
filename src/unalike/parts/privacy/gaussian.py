"""The Gaussian mechanism on updates, central or local (McMahan et al. 2018, Alg. 1).

central:  u = (sum_k clip(u_k, C) + z C xi) / n,          xi ~ N(0, I), drawn by the server
local:    u_k <- clip(u_k, C) + z C xi_k,                 xi_k ~ N(0, I), drawn by client k

What the noise is worth is counted in ``accountant.py``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from unalike import rng, tree
from unalike.channel import InPlace
from unalike.cohort import Cohort
from unalike.parts.clip import clip
from unalike.parts.noise import normal
from unalike.rng import Key
from unalike.tree import Tree


@dataclass(frozen=True)
class Clipped(InPlace):
    """A client's update leaves it no longer than ``norm``, with noise if there is any."""

    norm: float  # C
    noise: float = 0.0  # z, the standard deviation in units of the norm

    def encode(self, up: Tree, memory: tuple[()], key: Key) -> tuple[Tree, tuple[()]]:
        """The update as it is sent."""
        return noisy(clip(up, self.norm), self.noise * self.norm, key), memory


@dataclass(frozen=True)
class NoisyMean:
    """The plain mean of clipped updates with noise added once.

    The server clips again: the guarantee of the honest must not rest on everybody's honesty.
    """

    norm: float  # C
    noise: float  # z, the standard deviation on the sum in units of the norm

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """A stack of one row, with weight one."""
        each = vmap(clip, in_dims=(0, None))(ups, self.norm)
        mean = tree.map(lambda x: x.mean(0), each)
        std = self.noise * self.norm / len(p)
        sent = noisy(mean, std, rng.fold_in(cohort.key, rng.Stream.RELEASE))
        return tree.map(lambda x: x[None], sent), torch.ones_like(p[:1])


def noisy(up: Tree, std: float, key: Key) -> Tree:
    """An update plus Gaussian noise; untouched if there is none, so that its norm may be infinite.

    >>> noisy({"w": torch.tensor([1.0])}, 0.0, rng.key(0))
    {'w': tensor([1.])}
    """
    return tree.add(up, tree.scale(std, normal(up, key))) if std > 0 else up
