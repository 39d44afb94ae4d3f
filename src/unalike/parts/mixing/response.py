"""AAggFF's response of a client to its loss (Hahn et al. 2024, section 3): a bounded CDF.

x_i = F_i / mean(F),    r_i = C1 + (C2 - C1) CDF(x_i)
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Cdf = Literal["weibull", "exponential", "frechet", "normal", "gumbel", "logistic"]

# Scale 1 throughout; shape 2 for Weibull, 1 for Frechet; location 1 for the last three.
CDFS: dict[str, Callable[[Tensor], Tensor]] = {
    "weibull": lambda x: 1 - torch.exp(-(x**2)),
    "exponential": lambda x: 1 - torch.exp(-x),
    "frechet": lambda x: torch.exp(-1 / x.clamp(min=1e-300)),
    "normal": lambda x: (1 + torch.erf((x - 1) / math.sqrt(2))) / 2,
    "gumbel": lambda x: torch.exp(-torch.exp(-(x - 1))),
    "logistic": lambda x: torch.sigmoid(x - 1),
}


def respond(losses: Tensor, cdf: Cdf, low: float, high: float) -> Tensor:
    """Responses in [low, high], unchanged when all losses are scaled by the same factor."""
    mean = losses.mean()
    x = losses / mean if mean > 0 else torch.ones_like(losses)
    return low + (high - low) * CDFS[cdf](x)
