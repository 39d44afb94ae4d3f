"""Adaptive server optimizers (Reddi et al. 2021, Alg. 2).

D = sum_k p_k (x_k - x),  g = -D
m <- b1 m + (1 - b1) g
v <- v + g^2                            (Adagrad)
v <- b2 v + (1 - b2) g^2                (Adam)
v <- v - (1 - b2) g^2 sign(v - g^2)     (Yogi)
x <- x - lr m / (sqrt(v) + tau),        v_0 = tau^2, no bias correction
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.parts.optim import Rate
from unalike.tree import Tree


class Moments(NamedTuple):
    """First and second moment of the server's gradient."""

    m: Tree
    v: Tree


@dataclass(frozen=True)
class _Adaptive(ABC):
    lr: float
    b1: float = 0.9
    b2: float = 0.99
    tau: float = 1e-3

    @abstractmethod
    def second(self, v: Tensor, g2: Tensor) -> Tensor:
        """The next second moment, from the squared gradient."""

    def init(self, w: Tree) -> Moments:
        """m_0 = 0 and v_0 = tau^2."""
        return Moments(tree.zeros(w), tree.map(lambda x: torch.full_like(x, self.tau**2), w))

    def update(self, g: Tree, state: Moments, w: Tree, rate: Rate = 1.0) -> tuple[Tree, Moments]:
        """One adaptive step."""
        m = tree.map(lambda m, g: self.b1 * m + (1 - self.b1) * g, state.m, g)
        v = tree.map(lambda v, g: self.second(v, g * g), state.v, g)
        lr = self.lr * rate
        w = tree.map(lambda w, m, v: w - lr * m / (torch.sqrt(v) + self.tau), w, m, v)
        return w, Moments(m, v)


@dataclass(frozen=True)
class ServerAdam(_Adaptive):
    """FedAdam's second moment: an exponential average."""

    def second(self, v: Tensor, g2: Tensor) -> Tensor:
        """The next second moment."""
        return self.b2 * v + (1 - self.b2) * g2


@dataclass(frozen=True)
class ServerYogi(_Adaptive):
    """FedYogi's second moment: an additive, sign-controlled change."""

    def second(self, v: Tensor, g2: Tensor) -> Tensor:
        """The next second moment."""
        return v - (1 - self.b2) * g2 * torch.sign(v - g2)


@dataclass(frozen=True)
class ServerAdagrad(_Adaptive):
    """FedAdagrad's second moment: a running sum."""

    b1: float = 0.0

    def second(self, v: Tensor, g2: Tensor) -> Tensor:
        """The next second moment."""
        return v + g2
