"""Three clients whose losses and updates are known, and one way to ask a rule for their weights."""

from typing import Any

import numpy as np
import torch
from federations import cohort
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from unalike.algorithms.fednova import FedNova, Nova
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.examples import ByExamples
from unalike.parts.optim import Sgd

Array = NDArray[np.float64]
CLOSE = {"abs": 6e-7, "rel": 0}
F, N = [0.5, 1.0, 2.0], [10, 20, 30]
UPDATES = torch.tensor([[0.02, -0.01], [0.03, 0.04], [-0.05, 0.06]], dtype=torch.float64)  # x - x_i
LENGTHS = UPDATES.square().sum(1).tolist()


def plain(p: Tensor) -> list[float]:
    """As Python's numbers."""
    return [float(v) for v in p.detach()]


def weigh(rule: Mixing, n: int = 3, **stats: list[float]) -> Tensor:
    """The weights of the three clients, or of so many of one size, in the first round."""
    return rule.weights(rule.init(n), cohort(N if n == 3 else [1] * n, **stats)).p


def nova(
    momentum: float = 0.0,
    *,
    lr: float = 0.1,
    nesterov: bool = False,
    pull: float = 0.0,
    rule: Mixing = ByExamples(),
    **settings: Any,
) -> Nova:
    """FedNova's rule for clients that take such steps."""
    opt = Sgd(lr, momentum, nesterov=nesterov)
    return Nova(FedNova(**settings), opt, pull, rule=rule)


def newton_plainly(losses: Array) -> Array:
    """The last decision of AAggFF-S by projected descent on the regularised sum itself."""
    K = losses.shape[1]
    p, gs, ps = np.full(K, 1 / K), [], []
    for loss in losses:
        r = ndtr(loss / loss.mean() - 1) / K
        ps.append(p)
        gs.append(-r / (1 + p @ r))
        G, P = np.array(gs), np.array(ps)
        q = p
        for _ in range(4000):
            slope = G.sum(0) + 4 * q + K / 4 * ((G @ q - (G * P).sum(1)) @ G)
            v = q - slope / (4 + K / 4 * (G**2).sum())
            down = np.sort(v)[::-1]
            excess = (np.cumsum(down) - 1) / np.arange(1, K + 1)
            new = np.maximum(v - excess[np.flatnonzero(down > excess)[-1]], 0)
            if np.abs(new - q).max() < 1e-14:
                break
            q = new
        p = new
    return p
