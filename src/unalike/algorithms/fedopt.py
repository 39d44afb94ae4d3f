"""FedAdam, FedYogi, FedAdagrad (Reddi et al. 2021, Alg. 2): adaptive steps on the server.

D = sum_k p_k (x_k - x),  g = -D
m <- b1 m + (1 - b1) g
v <- v + g^2                            (Adagrad)
v <- b2 v + (1 - b2) g^2                (Adam)
v <- v - (1 - b2) g^2 sign(v - g^2)     (Yogi)
x <- x - lr m / (sqrt(v) + tau),        v_0 = tau^2, no bias correction
"""

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import REPLACED_STEP, Method, Slot
from unalike.parts.optim import Rate
from unalike.settings import setting
from unalike.tree import Tree

_EXPERIMENTS = "text: the value of the experiments"


class Moments(NamedTuple):
    """First and second moment of the server's gradient."""

    m: Tree
    v: Tree


class Adaptive(Method):
    """A method that only sets the server's optimizer."""

    slot: ClassVar[Slot] = "server"
    refuses = REPLACED_STEP
    paper: ClassVar[str] = "Reddi et al. 2021, arXiv 2003.00295"

    lr: float = setting(
        0.1,
        "server learning rate",
        gt=0,
        source="our choice: a tenth of FedAvg's step; the text tunes it per dataset",
    )
    tau: float = setting(1e-3, "degree of adaptivity; v starts at tau^2", gt=0, source=_EXPERIMENTS)
    b1: float = setting(0.9, "decay of the first moment", ge=0, lt=1, source=_EXPERIMENTS)

    def change(self, draft: Draft) -> Draft:
        """Fill the server optimizer."""
        return replace(draft, server_opt=self)

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


class FedAdam(Adaptive):
    """Adam on the server: steps scaled by an exponential average of squared updates."""

    b2: float = setting(0.99, "decay of the second moment", ge=0, lt=1, source=_EXPERIMENTS)

    def second(self, v: Tensor, g2: Tensor) -> Tensor:
        """An exponential average."""
        return self.b2 * v + (1 - self.b2) * g2


class FedYogi(Adaptive):
    """Yogi on the server: the second moment changes additively, so it forgets more slowly."""

    b2: float = setting(0.99, "speed of the second moment", ge=0, lt=1, source=_EXPERIMENTS)

    def second(self, v: Tensor, g2: Tensor) -> Tensor:
        """An additive, sign-controlled change."""
        return v - (1 - self.b2) * g2 * torch.sign(v - g2)


class FedAdagrad(Adaptive):
    """Adagrad on the server: the second moment only grows, so steps only shrink."""

    b1: float = setting(0.0, "decay of the first moment", ge=0, lt=1, source=_EXPERIMENTS)

    def second(self, v: Tensor, g2: Tensor) -> Tensor:
        """A running sum."""
        return v + g2
