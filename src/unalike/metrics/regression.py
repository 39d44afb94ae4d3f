"""How well every client's numbers are predicted, for all clients at once from flat rows.

RMSE = sqrt(mean (f - y)^2)   MAE = mean |f - y|   R^2 = 1 - sum (f - y)^2 / sum (y - mean y)^2
"""

import torch
from torch import Tensor

from unalike.metrics.segments import segment_mean, segment_sum


def per_client(
    predicted: Tensor, target: Tensor, owner: Tensor, n_clients: int
) -> dict[str, Tensor]:
    """Errors of each client's rows, in the unit of the target.

    Returns:
        ``rmse``, ``mae``, ``r2`` and the number of rows ``n``, each a vector over clients; a client
        without rows has ``n`` 0, the rest NaN. ``r2`` is against the mean of the client's own rows,
        and NaN where these are fewer than two or all the same.
    """
    f, y = predicted.double(), target.double()
    error = f - y
    mse = segment_mean(error**2, owner, n_clients)
    around = y - segment_mean(y, owner, n_clients)[owner]
    total = segment_sum(around**2, owner, n_clients)
    # Rounding can leave equal numbers a tiny way from their mean.
    varies = total > 1e-12 * segment_sum(y**2, owner, n_clients)
    r2 = 1 - segment_sum(error**2, owner, n_clients) / total
    return {
        "rmse": mse.sqrt(),
        "mae": segment_mean(error.abs(), owner, n_clients),
        "r2": torch.where(varies, r2, torch.nan),
        "n": torch.bincount(owner, minlength=n_clients),
    }
