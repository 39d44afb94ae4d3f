"""Spectral normalisation (Miyato et al. 2018) without power iteration.

The usual layer keeps two vectors between calls and changes them in the forward pass. The exact
norm needs no state, so it works under vmap and is the same alone and in a cohort.
"""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unalike.tree import Params


def spectral_norm(matrix: Tensor) -> Tensor:
    """The largest singular value: the root of the Gram matrix's largest eigenvalue."""
    rows, columns = matrix.shape
    gram = matrix @ matrix.mT if rows <= columns else matrix.mT @ matrix
    eigenvalues: Tensor = torch.linalg.eigvalsh(gram)
    return eigenvalues[-1].sqrt()


class SpectralLinear(nn.Linear):
    """A linear layer whose matrix is divided by its spectral norm."""

    def forward(self, x: Tensor) -> Tensor:
        """``x W^T / ||W||_2 + b``."""
        return F.linear(x, self.weight / spectral_norm(self.weight), self.bias)


def without_spectral_norm(module: nn.Module) -> nn.Module:
    """``module`` with ordinary linear layers, of the same names and leaves, for normalised ones."""
    if isinstance(module, SpectralLinear):
        ordinary = nn.Linear(module.in_features, module.out_features, device="meta")
        ordinary.weight, ordinary.bias = module.weight, module.bias
        return ordinary
    for name, child in module.named_children():
        setattr(module, name, without_spectral_norm(child))
    return module


def divided(w: Params, matrices: Collection[str]) -> Params:
    """Leaves with which ordinary layers compute what normalised ones compute with ``w``."""
    return {n: v / spectral_norm(v) if n in matrices else v for n, v in w.items()}
