"""What a client minimises in place of its minibatch loss l: an increasing curve of it."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Bargain:
    """PropFair's -log(1 - l/M), or l/M where M - l < floor (Zhang et al. 2022).

    The second branch is the authors' code; it keeps steps finite where the loss is near M or above.
    """

    baseline: float
    floor: float = 0.2

    def __call__(self, loss: Tensor) -> Tensor:
        """The value to minimise."""
        share = loss / self.baseline
        inside = self.baseline - loss >= self.floor
        # Both branches are differentiated: the logarithm must be finite in the one not taken.
        log = -torch.log1p(-torch.where(inside, share, 0.0))
        return torch.where(inside, log, share)
