"""How well every client's examples are reconstructed, for all clients at once from flat rows."""

import torch
from torch import Tensor

from unalike.metrics.segments import segment_mean


def per_client(terms: Tensor, owner: Tensor, n_clients: int) -> dict[str, Tensor]:
    """Means over a client's rows, from each row's reconstruction error and divergence, [n, 2].

    Returns:
        ``loss`` (their sum), ``reconstruction``, ``kl`` and the number of rows ``n``, each a vector
        over clients; a client without rows has ``n`` 0, the rest NaN.
    """
    reconstruction, divergence = terms.double().unbind(1)
    rows = {
        "loss": reconstruction + divergence,
        "reconstruction": reconstruction,
        "kl": divergence,
    }
    means = {name: segment_mean(v, owner, n_clients) for name, v in rows.items()}
    # A model that diverged has no loss rather than an infinite one.
    metrics = {name: v.where(v.isfinite(), torch.nan) for name, v in means.items()}
    return {**metrics, "n": torch.bincount(owner, minlength=n_clients)}
