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

MANY = 1 << 20  # (client, class) pairs up to which all are counted, those without rows as well
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
    by_owner = None if bool((owner[1:] >= owner[:-1]).all()) else torch.argsort(owner)
    first, flat = rows.cumsum(0) - rows, logits.reshape(-1)

    positives = torch.bincount(owner * classes + labels) if n_clients * classes <= MANY else None
    if positives is None:
        cell, positives = torch.unique(owner * classes + labels, return_counts=True)
    else:
        cell = positives.nonzero()[:, 0]
        positives = positives[cell]
    cell = cell[positives < rows[cell // classes]]
    areas = []
    for part in _chunks(cell, rows[cell // classes]):
        client, size = part // classes, rows[part // classes]
        segment = torch.repeat_interleave(size)
        row = torch.arange(len(segment), device=cell.device)
        row += (first[client] - size.cumsum(0) + size).index_select(0, segment)
        row = row if by_owner is None else by_owner.index_select(0, row)
        wanted = (part % classes).index_select(0, segment)
        score = flat.index_select(0, row * classes + wanted).double()
        score -= normaliser.index_select(0, row)
        positive = labels.index_select(0, row) == wanted
        areas.append(_areas(segment, _ordinal(score), positive, len(part)))
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
    """The area of each segment; segment, rank and label share one integer, so one sort does all.

    Of equal scores negatives come first, so before a positive are all negatives that it beats or
    ties with. Those that it ties with are looked for only where a positive follows on an equal one.
    """
    key = _ascending((segment << 33) + (rank << 1) + positive)
    place = (key & 1).nonzero()[:, 0]
    own = key[place]
    reached = place - torch.arange(len(place), device=place.device)  # negatives up to here, of all
    rows, all_pos = (torch.bincount(i, minlength=n_segments) for i in (segment, own >> 33))
    all_neg = rows - all_pos
    before = all_neg.cumsum(0) - all_neg
    twice_wins = 2 * (_sums(reached, all_pos) - all_pos * before)

    ahead = key[(place - 1).clamp(min=0)]
    tied = own[ahead == own - 1]  # one of each score that positives and negatives share
    if len(tied):
        first, middle, last = (torch.searchsorted(key, tied + i) for i in (-1, 0, 1))
        ties = (middle - first) * (last - middle)
        twice_wins -= segment_sum(ties, tied >> 33, n_segments)
    return twice_wins.double() / (2 * all_pos * all_neg)


def _sums(values: Tensor, sizes: Tensor) -> Tensor:
    """The sum of as many values as each size says, one after the other."""
    total, end = values.cumsum(0), sizes.cumsum(0)
    return torch.diff(torch.cat([total.new_zeros(1), total])[end], prepend=total.new_zeros(1))
