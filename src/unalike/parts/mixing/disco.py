"""FedDisco's formula (Ye et al. 2023): size minus discrepancy, cut off at zero.

u_k = max(0, n_k / sum of n - a d_k + b);   p_k = u_k / sum of u        (all over the cohort)

If every u_k is zero, neither the formula nor the authors' code has an answer; here a policy gives
one, and the round is noted.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unalike.errors import RunError

AllZero = Literal["size", "error", "one_hot_min_d"]
ROUNDING = 1e-12


@dataclass(frozen=True)
class Disco:
    """The formula, and what happens if it gives no client a weight."""

    a: float = 0.5
    b: float = 0.1
    on_all_zero: AllZero = "size"

    def __call__(self, share: Tensor, d: Tensor) -> tuple[Tensor, str]:
        """(weights that sum to one, a sentence if the formula gave none).

        >>> p, _ = Disco()(torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.1, 0.4, 0.9]))
        >>> [round(float(x), 6) for x in p]
        [0.733333, 0.266667, 0.0]
        """
        u = share - self.a * d + self.b
        u = torch.where(u > ROUNDING, u, 0.0)  # a zero in arithmetic may be 1e-17 here
        if float(u.sum()) > 0:
            return u / u.sum(), ""
        if self.on_all_zero == "error":
            raise RunError(
                f"every client's weight is zero: discrepancies from {float(d.min()):.4g} to "
                f"{float(d.max()):.4g} are too large for a = {self.a:g} and b = {self.b:g}; lower "
                "a, raise b, or set on_all_zero = 'size'."
            )
        sizes = self.on_all_zero == "size"
        p = share if sizes else torch.zeros_like(share).index_fill(0, d.argmin(), 1.0)
        instead = "sizes" if sizes else "the smallest discrepancy alone"
        return p, f"every client's weight was zero, so they were weighted by {instead}"


def by_sum(d: Tensor) -> Tensor:
    """The vector divided by its sum; zeros stay zeros."""
    return d / d.sum() if float(d.sum()) > 0 else d
