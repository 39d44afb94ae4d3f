"""Sums over the rows of each client, for all clients in one array operation."""

import torch
from torch import Tensor


def segment_sum(values: Tensor, segment: Tensor, n_segments: int) -> Tensor:
    """The sum of the values of each segment; counts stay integers, all else is float64.

    ``index_add_`` rather than a weighted ``bincount``, which has no deterministic form on a GPU.
    """
    exact = values.dtype in (torch.bool, torch.int32, torch.int64)
    total = torch.zeros(
        n_segments, dtype=torch.int64 if exact else torch.float64, device=values.device
    )
    return total.index_add_(0, segment, values.to(total.dtype))


def segment_mean(values: Tensor, segment: Tensor, n_segments: int) -> Tensor:
    """The mean of the values of each segment, NaN where a segment has none."""
    total = segment_sum(values, segment, n_segments)
    return total.double() / torch.bincount(segment, minlength=n_segments)
