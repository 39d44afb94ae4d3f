"""Optimizers as (init, update) pairs on pytrees; one type serves both clients and servers.

``update`` takes a gradient and returns the next weights. A server passes the negated mean of its
clients' differences as the gradient.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from unalike import tree
from unalike.tree import Tree

Rate = float | Tensor


class Optimizer(Protocol):
    """A rule from gradients to the next weights."""

    @property
    def lr(self) -> float:
        """The learning rate."""
        ...

    def init(self, w: Tree) -> Any:
        """The state before the first step."""
        ...

    def update(self, g: Tree, state: Any, w: Tree, rate: Rate = 1.0) -> tuple[Tree, Any]:
        """(the next weights, next state); ``rate`` scales the learning rate."""
        ...


def _decayed(g: Tree, w: Tree, weight_decay: float) -> Tree:
    return tree.map(lambda g, w: g + weight_decay * w, g, w) if weight_decay else g


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent with momentum and weight decay, as PyTorch defines them.

    >>> w, _ = Sgd(lr=0.5).update({"w": torch.tensor(2.0)}, {}, {"w": torch.tensor(1.5)})
    >>> float(w["w"])
    0.5
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def init(self, w: Tree) -> Tree:
        """A zero momentum buffer, or nothing."""
        return tree.zeros(w) if self.momentum else {}

    def update(self, g: Tree, state: Tree, w: Tree, rate: Rate = 1.0) -> tuple[Tree, Tree]:
        """m <- rho m + g;  w <- w - lr m."""
        g = _decayed(g, w, self.weight_decay)
        if self.momentum:
            state = tree.map(lambda m, g: self.momentum * m + g, state, g)
            g = tree.map(lambda m, g: g + self.momentum * m, state, g) if self.nesterov else state
        step = torch.as_tensor(-self.lr * rate)
        return tree.map(lambda w, g: torch.addcmul(w, g, step.to(w)), w, g), state


class Moments(NamedTuple):
    """First and second moment, and the number of steps taken."""

    m: Tree
    v: Tree
    steps: Tensor


@dataclass(frozen=True)
class Adam:
    """Adam with bias correction (Kingma & Ba 2015), for clients."""

    lr: float
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def init(self, w: Tree) -> Moments:
        """Zero moments."""
        device = next(iter(tree.leaves(w)), torch.zeros(())).device
        steps = torch.zeros(
            (), dtype=torch.float64, device=device
        )  # 1 - 0.999 has no digits to lose
        return Moments(tree.zeros(w), tree.zeros(w), steps)

    def update(self, g: Tree, state: Moments, w: Tree, rate: Rate = 1.0) -> tuple[Tree, Moments]:
        """w <- w - lr m^ / (sqrt(v^) + eps)."""
        g, t = _decayed(g, w, self.weight_decay), state.steps + 1
        m = tree.map(lambda m, g: torch.lerp(m, g, 1 - self.b1), state.m, g)
        v = tree.map(lambda v, g: torch.addcmul(self.b2 * v, g, g, value=1 - self.b2), state.v, g)
        step, root = -self.lr * rate / (1 - self.b1**t), torch.sqrt(1 - self.b2**t)

        def moved(w: Tensor, m: Tensor, v: Tensor) -> Tensor:
            scaled = m / (torch.sqrt(v) / root.to(v) + self.eps)
            return torch.addcmul(w, scaled, step.to(w))

        return tree.map(moved, w, m, v), Moments(m, v, t)


def at_rate(opt: Optimizer, lr: float | None) -> Optimizer:
    """The optimizer with another learning rate, if one is given.

    >>> at_rate(Sgd(0.1, momentum=0.9), 0.5)
    Sgd(lr=0.5, momentum=0.9, weight_decay=0.0, nesterov=False)
    """
    return opt if lr is None else replace(opt, lr=lr)  # type: ignore[type-var]
