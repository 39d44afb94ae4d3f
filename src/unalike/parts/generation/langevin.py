"""A server's Langevin step on the mixture of its clients' energies: its gradient and its size."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from unalike import rng
from unalike.rng import Key
from unalike.uploads import Uploads

Mixture = Literal["signed", "density"]


class Up(NamedTuple):
    """Per example: a u and a, the gradient times the client's say in it, and that say.

    With the mixture of densities u and log a.
    """

    gradient: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Langevin:
    """The mixture of the clients' energies, and the server's walk down it."""

    rounds: int
    step_first: float = 10.0
    step_last: float = 0.01
    noise: float = 0.01  # delta
    mixture: Mixture = "signed"

    def said(self, u: Tensor, minus_energy: Tensor) -> Up:
        """What a client sends of its energy's gradients ``u``."""
        return said(self.mixture, u, minus_energy)

    def __call__(self, x: Tensor, ups: Uploads, p: Tensor, t: int, key: Key) -> Tensor:
        """The examples after the step of round ``t``."""
        step = mixed(self.mixture, ups, p)
        noise = rng.normal(key.to(step.device), *step.shape)
        beta = cosine_step(t, self.rounds, self.step_first, self.step_last)
        return x - beta * step + self.noise * noise


def said(mixture: Mixture, u: Tensor, minus_energy: Tensor) -> Up:
    """What a client sends of its energy's gradients ``u``."""
    if mixture == "density":
        return Up(u, minus_energy)
    a = torch.exp(torch.sign(minus_energy))
    return Up(u * _beside(a, u), a)


def mixed(mixture: Mixture, ups: Uploads, p: Tensor) -> Tensor:
    """The gradient of the mixture's energy: sum_k p_k a_k u_k / sum_k p_k a_k."""
    if mixture == "density":  # a softmax, since exp(-E) itself may overflow
        each: Any = ups.stack()
        a = torch.softmax(p.to(each.weight).log()[:, None] + each.weight, 0)
        found: Tensor = (_beside(a, each.gradient) * each.gradient).sum(0)
        return found
    mean: Any = ups.mean(p)
    found = mean.gradient / _beside(mean.weight, mean.gradient)
    return found


def _beside(weight: Tensor, x: Tensor) -> Tensor:
    """A number of each example, to be used with its features."""
    return weight[(...,) + (None,) * (x.ndim - weight.ndim)]


def cosine_step(t: int, rounds: int, first: float, last: float, s: float = 0.008) -> float:
    """The server's step size: almost constant, collapsing to ``last`` in the final rounds.

    b_t = 1 - f(t + 1) / f(t) with f the squared cosine of Nichol & Dhariwal (2021), without cap.
    """

    def f(k: int) -> float:
        return math.cos((k / rounds + s) / (1 + s) * math.pi / 2) ** 2

    return last if t >= rounds - 1 else first + (1 - f(t + 1) / f(t)) * (last - first)
