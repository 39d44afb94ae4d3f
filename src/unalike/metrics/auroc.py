"""Area under the ROC curve of every client from one sort, ties counted as half.

The area is the Mann-Whitney statistic (Hanley & McNeil 1982): over all pairs of a positive and a
negative row, the share in which the positive scores higher, a tie counting one half. It is counted
in integers, so it is exact.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from unalike.metrics.segments import segment_mean, segment_sum

PAIRS_AT_ONCE = 1 << 21  # (row, class) pairs sorted together: about 250 MB of temporary arrays


def binary_auroc(score: Tensor, positive: Tensor, owner: Tensor, n_clients: int) -> Tensor:
    """The area of each client, NaN where positives or negatives are missing."""
    _, rank = torch.unique(score, return_inverse=True)
    return _areas(owner, rank, positive, n_clients)


def one_vs_rest_auroc(
    logits: Tensor, normaliser: Tensor, labels: Tensor, owner: Tensor, n_clients: int
) -> Tensor:
    """The mean over classes of each client's one-against-rest areas.

    Only classes of which a client has both positives and negatives enter, so only these
    (client, class) pairs are sorted. A class is scored by its probability; ``normaliser`` is the
    logarithm of each row's softmax denominator.
    """
    classes = logits.shape[1]
    rows = torch.bincount(owner, minlength=n_clients)
    by_owner = torch.argsort(owner)
    first = rows.cumsum(0) - rows

    cell, positives = torch.unique(owner * classes + labels, return_counts=True)
    cell = cell[positives < rows[cell // classes]]
    areas = []
    for part in _chunks(cell, rows[cell // classes]):
        client = part // classes
        segment = torch.repeat_interleave(rows[client])
        ends = rows[client].cumsum(0)
        offset = torch.arange(len(segment), device=cell.device) - (ends - rows[client])[segment]
        row = by_owner[first[client][segment] + offset]
        wanted = (part % classes)[segment]
        score = logits[row, wanted].double() - normaliser[row]
        areas.append(_areas(segment, _ordinal(score), labels[row] == wanted, len(part)))
    if not areas:
        return torch.full((n_clients,), torch.nan, dtype=torch.float64, device=logits.device)
    return segment_mean(torch.cat(areas), cell // classes, n_clients)


def _chunks(cell: Tensor, size: Tensor) -> Iterator[Tensor]:
    """Consecutive cells whose sizes together stay near the limit on pairs at once."""
    chunk = size.cumsum(0) // PAIRS_AT_ONCE
    yield from torch.split(cell, torch.unique_consecutive(chunk, return_counts=True)[1].tolist())


def _ordinal(score: Tensor) -> Tensor:
    """Integers of 32 bits in the order of the scores.

    Rounding to float32 makes equal scores equal again after they were summed in different orders.
    Its bit patterns grow with positive numbers and shrink with negative ones, hence the flip.
    """
    bits = (score.float() + 0.0).view(torch.int32).long()  # + 0.0 turns -0.0 into 0.0
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits) + (1 << 31)


def _ascending(key: Tensor) -> Tensor:
    """The keys in order; NumPy does not carry places along and takes a quarter of the time."""
    if key.device.type != "cpu":
        return torch.sort(key)[0]
    return torch.from_numpy(np.sort(key.numpy()))


def _areas(segment: Tensor, rank: Tensor, positive: Tensor, n_segments: int) -> Tensor:
    """The area of each segment; segment, rank and label share one integer, so one sort does all."""
    key = _ascending((segment << 33) + (rank << 1) + positive)
    tied, size = torch.unique_consecutive(key >> 1, return_counts=True)
    segment = tied >> 32
    reached = torch.cumsum(key & 1, 0)[size.cumsum(0) - 1]
    pos = torch.diff(reached, prepend=reached.new_zeros(1))
    neg = size - pos

    all_pos = segment_sum(pos, segment, n_segments)
    all_neg = segment_sum(neg, segment, n_segments)
    below = neg.cumsum(0) - neg - (all_neg.cumsum(0) - all_neg)[segment]
    twice_wins = segment_sum(pos * (2 * below + neg), segment, n_segments)
    return twice_wins.double() / (2 * all_pos * all_neg)
