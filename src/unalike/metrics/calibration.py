"""Calibration error of the predicted class, per client.

Guo et al., "On Calibration of Modern Neural Networks" (2017), eqs. 3 and 5, with equal-width bins
(lo, hi] on the confidence of the predicted class:

    ECE = sum_b (|b| / n) |acc(b) - conf(b)|        MCE = max over non-empty b of |acc(b) - conf(b)|
"""

from typing import NamedTuple

import torch
from torch import Tensor

from unalike.errors import ConfigError, DataError
from unalike.metrics.rows import check_owner
from unalike.metrics.segments import segment_mean

BINS = 15


class Reliability(NamedTuple):
    """What a reliability diagram draws, one row per client; empty bins hold NaN."""

    counts: Tensor  # [n_clients, bins]
    accuracy: Tensor
    confidence: Tensor


def reliability(
    confidence: Tensor, correct: Tensor, owner: Tensor, n_clients: int, bins: int = BINS
) -> Reliability:
    """Count, accuracy and mean confidence of each client's rows in each bin of confidence."""
    owner = _check(confidence, correct, owner, n_clients, bins)
    # The edges take the confidence's own type: a float32 0.6 must fall on the edge 9/15, not past.
    edges = torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins
    cell = owner * bins + torch.bucketize(confidence, edges.to(confidence.dtype))
    n_cells = n_clients * bins
    return Reliability(
        torch.bincount(cell, minlength=n_cells).view(n_clients, bins),
        segment_mean(correct.to(confidence.device, torch.float64), cell, n_cells).view(-1, bins),
        segment_mean(confidence, cell, n_cells).view(-1, bins),
    )


def pool(diagram: Reliability) -> Reliability:
    """All rows of a diagram put together, as if one client owned everything."""
    n = diagram.counts.sum(0)
    accuracy, confidence = ((diagram.counts * v.nan_to_num(0.0)).sum(0) / n for v in diagram[1:])
    return Reliability(n[None], accuracy[None], confidence[None])


def ece(diagram: Reliability) -> Tensor:
    """Expected calibration error of each client, NaN where a client has no rows."""
    gap = (diagram.accuracy - diagram.confidence).abs().nan_to_num(0.0)
    return (diagram.counts * gap).sum(1) / diagram.counts.sum(1)


def mce(diagram: Reliability) -> Tensor:
    """Largest gap over each client's non-empty bins, NaN where a client has no rows."""
    gap = (diagram.accuracy - diagram.confidence).abs().nan_to_num(0.0)
    return torch.where(diagram.counts.sum(1) > 0, gap.amax(1), torch.nan)


def calibration_errors(
    confidence: Tensor,
    correct: Tensor,
    owner: Tensor,
    n_clients: int,
    bins: int = BINS,
    per_batch: int | None = None,
) -> tuple[Tensor, Tensor]:
    """ECE and MCE of each client.

    Args:
        confidence: Probability of the predicted class, one per row.
        correct: Whether the prediction was right.
        owner: Client of each row.
        n_clients: Number of clients.
        bins: Number of equal-width bins.
        per_batch: If given, cut each client's rows, in their order, into batches of this size and
            average the batches' errors, the last and smaller batch counting fully. Some published
            tables were made so; bins hold few examples then, which inflates both errors.
    """
    if per_batch is None:
        diagram = reliability(confidence, correct, owner, n_clients, bins)
        return ece(diagram), mce(diagram)
    if per_batch < 1:
        raise ConfigError(f"per_batch must be at least 1, got {per_batch}.")
    owner = _check(confidence, correct, owner, n_clients, bins)
    batch, batch_owner = _batches(owner, n_clients, per_batch)
    diagram = reliability(confidence, correct, batch, max(1, len(batch_owner)), bins)
    if not len(batch_owner):
        undefined = torch.full((n_clients,), torch.nan, dtype=torch.float64, device=owner.device)
        return undefined, undefined
    return (
        segment_mean(ece(diagram), batch_owner, n_clients),
        segment_mean(mce(diagram), batch_owner, n_clients),
    )


def _batches(owner: Tensor, n_clients: int, size: int) -> tuple[Tensor, Tensor]:
    """The batch of each row, and the client of each batch."""
    rows = torch.bincount(owner, minlength=n_clients)
    batches = (rows + size - 1) // size
    order = torch.argsort(owner, stable=True)
    client = owner[order]
    position = torch.arange(len(owner), device=owner.device) - (rows.cumsum(0) - rows)[client]
    batch = torch.empty_like(owner)
    batch[order] = (batches.cumsum(0) - batches)[client] + position // size
    return batch, torch.repeat_interleave(batches)


def _check(confidence: Tensor, correct: Tensor, owner: Tensor, n_clients: int, bins: int) -> Tensor:
    if bins < 1:
        raise ConfigError(f"bins must be at least 1, got {bins}.")
    if confidence.ndim != 1 or confidence.shape != correct.shape:
        raise DataError(
            "confidence and correct must be vectors of one length, got shapes "
            f"{tuple(confidence.shape)} and {tuple(correct.shape)}."
        )
    owner = check_owner(owner, len(confidence), n_clients, confidence.device)
    outside = ~((confidence >= 0) & (confidence <= 1))  # true for NaN
    if outside.any():
        raise DataError(
            f"confidence must lie in 0 to 1, got {confidence[outside][0].item()} "
            f"at client {int(owner[outside][0])}."
        )
    return owner
