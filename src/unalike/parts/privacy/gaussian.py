"""The client's half of the Gaussian mechanism on updates (McMahan et al. 2018, Alg. 1).

u_k <- clip(u_k, C) + z C xi_k,                 xi_k ~ N(0, I), drawn by client k

Centrally clients only clip (z = 0), and the server adds its noise to the sum. What the noise is
worth is counted in ``accountant.py``.
"""

from dataclasses import dataclass

from unalike import tree
from unalike.channel import InPlace
from unalike.parts.privacy.clip import clip
from unalike.parts.privacy.noise import normal
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


def noisy(up: Tree, std: float, key: Key) -> Tree:
    """An update plus Gaussian noise; untouched if there is none, so that its norm may be infinite.

    >>> import torch
    >>> from unalike import rng
    >>> noisy({"w": torch.tensor([1.0])}, 0.0, rng.key(0))
    {'w': tensor([1.])}
    """
    return tree.add(up, tree.scale(std, normal(up, key))) if std > 0 else up
