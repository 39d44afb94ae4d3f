"""Predictions of many clients as flat rows, checked before anything is computed from them."""

from typing import NamedTuple

import torch
from torch import Tensor

from unalike.errors import DataError


class Rows(NamedTuple):
    """One row per test example, of all clients."""

    logits: Tensor  # [n, M], or [n] when the task is binary
    labels: Tensor  # [n] int64
    owner: Tensor  # [n] int64
    n_clients: int
    classes: int


def check_owner(owner: Tensor, n_rows: int, n_clients: int, device: torch.device) -> Tensor:
    """The owners as int64 on the device, after checking that each is one of the clients."""
    if owner.shape != (n_rows,):
        raise DataError(
            f"owner must give one client for each of the {n_rows} rows, "
            f"got shape {tuple(owner.shape)}."
        )
    if owner.is_floating_point() or owner.is_complex() or owner.dtype == torch.bool:
        raise DataError(f"owner must hold integers, got {owner.dtype}; convert it with .long().")
    if n_clients < 1:
        raise DataError(f"n_clients must be at least 1, got {n_clients}.")
    owner = owner.to(device, torch.int64)
    outside = (owner < 0) | (owner >= n_clients)
    if outside.any():
        raise DataError(
            f"owner must name clients 0 to {n_clients - 1}, "
            f"got {int(owner[outside][0])} in row {int(outside.nonzero()[0])}."
        )
    return owner


def check_rows(
    logits: Tensor, labels: Tensor, owner: Tensor, n_clients: int, *, binary: bool
) -> Rows:
    """The rows with their types settled, or an error that names the first client at fault."""
    if binary:
        if logits.ndim == 2 and logits.shape[1] == 1:
            logits = logits[:, 0]
        if logits.ndim != 1:
            raise DataError(
                f"a binary task takes one logit per row, got shape {tuple(logits.shape)}; "
                "use binary=False for one logit per class."
            )
    elif logits.ndim != 2 or logits.shape[1] < 2:
        raise DataError(
            f"logits must be [rows, classes] with at least 2 classes, got shape "
            f"{tuple(logits.shape)}; flatten sequences first, use binary=True for one logit."
        )
    if not logits.is_floating_point():
        raise DataError(f"logits must be floating point, got {logits.dtype}.")
    n = len(logits)
    classes = 2 if binary else logits.shape[1]
    if labels.shape != (n,):
        raise DataError(
            f"labels must give one class for each of the {n} rows of logits, "
            f"got shape {tuple(labels.shape)}."
        )
    owner = check_owner(owner, n, n_clients, logits.device)
    labels = labels.to(logits.device)

    # written so that a NaN label counts as wrong
    wrong = ~((labels >= 0) & (labels < classes) & (labels == labels.to(torch.int64)))
    if wrong.any():
        raise DataError(
            f"label {labels[wrong][0].item()} of client {int(owner[wrong][0])} is not a class "
            f"from 0 to {classes - 1}; drop the rows that should be ignored."
        )
    finite = torch.isfinite(logits)
    finite = finite if binary else finite.all(1)
    if not finite.all():
        culprits = owner[~finite]
        raise DataError(
            f"client {int(culprits.min())} has non-finite logits ({len(culprits)} rows of "
            f"{len(torch.unique(culprits))} clients): its model diverged; lower the learning rate "
            "or clip the gradient."
        )
    return Rows(logits, labels.to(torch.int64), owner, n_clients, classes)
