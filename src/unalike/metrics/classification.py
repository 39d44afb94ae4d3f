"""How well every client is classified, for all clients at once from flat rows."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unalike.metrics.auroc import binary_auroc, one_vs_rest_auroc
from unalike.metrics.calibration import BINS, Reliability, calibration_errors, reliability
from unalike.metrics.rows import Rows, check_rows
from unalike.metrics.segments import segment_mean, segment_sum

ENTRIES_AT_ONCE = 1 << 22  # logits held in float64 together: 32 MB per temporary array


class Outcomes(NamedTuple):
    """What the logits say of each row."""

    loss: Tensor  # [n] float64
    predicted: Tensor  # [n] int64, the first of equal maxima
    confidence: Tensor  # [n] probability of the predicted class
    label_rank: Tensor | None  # [n] number of classes placed before the label
    normaliser: Tensor | None  # [n] logarithm of the softmax denominator


def per_client(
    logits: Tensor,
    labels: Tensor,
    owner: Tensor,
    n_clients: int,
    *,
    binary: bool = False,
    auroc: bool = True,
    bins: int = BINS,
    per_batch: int | None = None,
) -> dict[str, Tensor]:
    """Every metric of every client.

    Args:
        logits: One row per example: [n, classes], or [n] or [n, 1] when binary.
        labels: [n] class of each row; the label of a binary task is 0 or 1.
        owner: [n] client of each row, in any order.
        n_clients: Number of clients.
        binary: Whether rows have one logit, which is positive for class 1.
        auroc: Whether to measure it, which takes a sort of all rows for every class.
        bins: Bins of the calibration errors.
        per_batch: Batch size of the batch-averaged calibration errors; the whole client if None.

    Returns:
        A vector over clients for each name; a client without rows has ``n`` 0 and NaN for the rest.

        * ``accuracy``; ``top5`` with more than 5 classes (equal logits rank by class number);
        * ``loss``: mean cross-entropy, in nats;
        * ``precision``, ``recall``, ``f1``: scikit-learn's macro average with zero_division=0, over
          the classes that occur in the client's labels or predictions, binary tasks included;
        * ``auroc``: see ``unalike.metrics.auroc``; NaN where no class has both positives and
          negatives;
        * ``ece``, ``mce``: see ``unalike.metrics.calibration``;
        * ``n``: number of rows.

    Raises:
        DataError: Lengths differ, a label or owner is out of range, or logits are not finite.
    """
    rows = check_rows(logits, labels, owner, n_clients, binary=binary)
    outcomes = _binary_outcomes(rows) if binary else _multiclass_outcomes(rows)
    return _measured(rows, outcomes, auroc, bins, per_batch)


def judged(
    logits: Tensor,
    labels: Tensor,
    owner: Tensor,
    n_clients: int,
    *,
    binary: bool = False,
    auroc: bool = True,
    per_batch: int | None = None,
) -> tuple[dict[str, Tensor], Reliability]:
    """``per_client`` and ``pooled_reliability``, which look at the logits together."""
    rows = check_rows(logits, labels, owner, n_clients, binary=binary)
    outcomes = _binary_outcomes(rows) if binary else _multiclass_outcomes(rows)
    found = _measured(rows, outcomes, auroc, per_batch=per_batch)
    return found, _diagram(rows, outcomes, BINS)


def _measured(
    rows: Rows,
    outcomes: Outcomes,
    auroc: bool = True,
    bins: int = BINS,
    per_batch: int | None = None,
) -> dict[str, Tensor]:
    n_clients, correct = rows.n_clients, outcomes.predicted == rows.labels
    metrics = {"accuracy": segment_mean(correct, rows.owner, n_clients)}
    if outcomes.label_rank is not None and rows.classes > 5:
        metrics["top5"] = segment_mean(outcomes.label_rank < 5, rows.owner, n_clients)
    metrics["loss"] = segment_mean(outcomes.loss, rows.owner, n_clients)
    metrics |= _macro_averages(rows, outcomes.predicted)
    if auroc:
        metrics["auroc"] = _auroc(rows, outcomes)
    metrics["ece"], metrics["mce"] = calibration_errors(
        outcomes.confidence, correct, rows.owner, n_clients, bins, per_batch
    )
    metrics["n"] = torch.bincount(rows.owner, minlength=n_clients)
    return metrics


def pooled(
    logits: Tensor,
    labels: Tensor,
    *,
    binary: bool = False,
    bins: int = BINS,
    per_batch: int | None = None,
) -> dict[str, float]:
    """The metrics of ``per_client`` with all rows given to one client."""
    owner = torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
    metrics = per_client(logits, labels, owner, 1, binary=binary, bins=bins, per_batch=per_batch)
    return {name: value.item() for name, value in metrics.items()}


def pooled_reliability(
    logits: Tensor, labels: Tensor, *, binary: bool = False, bins: int = BINS
) -> Reliability:
    """The reliability diagram of all rows together: a single row of bins."""
    owner = torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
    rows = check_rows(logits, labels, owner, 1, binary=binary)
    outcomes = _binary_outcomes(rows) if binary else _multiclass_outcomes(rows)
    return _diagram(rows, outcomes, bins)


def _diagram(rows: Rows, outcomes: Outcomes, bins: int) -> Reliability:
    correct = outcomes.predicted == rows.labels
    return reliability(outcomes.confidence, correct, torch.zeros_like(rows.owner), 1, bins)


def _binary_outcomes(rows: Rows) -> Outcomes:
    logit = rows.logits.double()
    return Outcomes(
        loss=F.binary_cross_entropy_with_logits(logit, rows.labels.double(), reduction="none"),
        predicted=(logit > 0).long(),
        confidence=_like(torch.sigmoid(logit.abs()), rows.logits),
        label_rank=None,
        normaliser=None,
    )


def _multiclass_outcomes(rows: Rows) -> Outcomes:
    parts = [
        _multiclass_chunk(logits.double(), labels)
        for logits, labels in _chunks(rows.logits, rows.labels)
    ]
    loss, predicted, confidence, rank, normaliser = (torch.cat(p) for p in zip(*parts, strict=True))
    return Outcomes(loss, predicted, _like(confidence, rows.logits), rank, normaliser)


def _multiclass_chunk(logits: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    own = logits.gather(1, labels[:, None])
    normaliser = logits.logsumexp(1)
    predicted = logits.argmax(1)
    top = logits.gather(1, predicted[:, None])
    index = torch.arange(logits.shape[1], device=logits.device)
    before = (logits > own) | ((logits == own) & (index < labels[:, None]))
    return (
        normaliser - own[:, 0],
        predicted,
        torch.exp(top[:, 0] - normaliser),
        before.sum(1),
        normaliser,
    )


def _chunks(logits: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, ENTRIES_AT_ONCE // logits.shape[1])
    return zip(torch.split(logits, size), torch.split(labels, size), strict=True)


def _like(probability: Tensor, logits: Tensor) -> Tensor:
    """The probability rounded to the precision its logits had, and to float32 at least.

    Rounding returns a probability such as 9/15, reached by a sum, to the edge of the bin it is on.
    """
    return probability.to(torch.promote_types(logits.dtype, torch.float32)).clamp(max=1.0)


def _macro_averages(rows: Rows, predicted: Tensor) -> dict[str, Tensor]:
    """Precision, recall and F1 from (client, class) cells; only cells that occur are stored."""
    n = len(predicted)
    cells = torch.cat([rows.owner * rows.classes + c for c in (rows.labels, predicted)])
    cell, index = _occurring(cells, rows.n_clients * rows.classes)
    support, claims = (torch.bincount(i, minlength=len(cell)) for i in (index[:n], index[n:]))
    hits = segment_sum(predicted == rows.labels, index[:n], len(cell)).double()
    per_class = {
        "precision": hits / claims.clamp(min=1),
        "recall": hits / support.clamp(min=1),
        "f1": 2 * hits / (support + claims),
    }
    client = cell // rows.classes
    return {name: segment_mean(v, client, rows.n_clients) for name, v in per_class.items()}


def _occurring(cells: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The cells that occur, ascending, and the place of each among them; without a sort if few."""
    if most > 4 * len(cells):
        return torch.unique(cells, return_inverse=True)
    found = torch.bincount(cells, minlength=most) > 0
    return found.nonzero()[:, 0], (found.cumsum(0) - 1)[cells]


def _auroc(rows: Rows, outcomes: Outcomes) -> Tensor:
    if outcomes.normaliser is None:
        return binary_auroc(rows.logits, rows.labels, rows.owner, rows.n_clients)
    return one_vs_rest_auroc(
        rows.logits, outcomes.normaliser, rows.labels, rows.owner, rows.n_clients
    )
