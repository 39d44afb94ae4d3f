"""Levels, fills and scales of features, learned from the training rows of training clients alone.

If rows or whole clients influenced a model's preprocessing, testing on them is testing on something
the model has seen. So this is done once it is known which rows train:

levels   a text column keeps the levels that training rows have; any other is zero in all of them
fills    a missing number gets the median, a missing level the most frequent one (ties: the first)
scale    pooled: mean 0 and variance 1 of columns, or of the channels of images, over all training
         rows; client: over the client's own, where it has any
target   a number that is predicted: mean 0 and variance 1 over all training rows

docs/how-to-privacy.md says what a server must learn for this in a real federation.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from unalike.errors import DataError
from unalike.federation.columns import NOTHING, Column
from unalike.federation.data import TRAIN, Federation
from unalike.federation.features import Features
from unalike.kinds import Unit

CHUNK = 8192  # images whose moments are summed at once


def prepared(federation: Federation) -> Federation:
    """The federation with everything done that its examples still wait for, and a record of it."""
    pending = federation.examples.pending
    if pending.columns:
        federation = _encoded(federation, pending.columns, pending.drop_first)
    if pending.scale == "pooled":
        federation = _treated(federation, _pooled(federation))
    if pending.scale == "client":
        federation = _treated(federation, _by_client(federation))
    if pending.target:
        federation = _scaled_target(federation)
    return replace(federation, examples=replace(federation.examples, pending=NOTHING))


def _scaled_target(federation: Federation) -> Federation:
    """Numbers to be predicted to mean 0 and variance 1 over all training rows."""
    e = federation.examples
    spread, centre = torch.std_mean(e.y[_training(federation)].double(), correction=0)
    unit = Unit(float(centre), float(spread) if spread > 1e-12 * centre.abs() else 1.0)

    def scaled(y: Tensor) -> Tensor:
        return ((y.double() - unit.centre) / unit.spread).float()

    test_y = None if e.test_y is None else scaled(e.test_y)
    return replace(federation, examples=replace(e, y=scaled(e.y), test_y=test_y, unit=unit))


def _encoded(federation: Federation, columns: tuple[Column, ...], drop_first: bool) -> Federation:
    """Missing values filled, and levels left out that no training row has."""
    x, test_x = federation.examples.x, federation.examples.test_x
    train = x[_training(federation)].double().numpy()
    fills, kept, learned, start = [], [], [], 0
    for column in columns:
        own = train[:, start : start + column.width]
        start += column.width
        fills.append(_median(own, column.name) if column.role == "number" else _mode(own))
        seen, base = np.ones(column.width, dtype=bool), ""
        if column.role == "levels":
            seen = (own == 1).any(axis=0)
            if drop_first:
                base = column.levels[seen.argmax()]
                seen[seen.argmax()] = False
        kept.append(seen)
        levels = tuple(level for level, here in zip(column.levels, seen, strict=False) if here)
        learned.append(column._replace(width=int(seen.sum()), levels=levels, base=base))
    keep = torch.from_numpy(np.concatenate(kept))
    fill = torch.from_numpy(np.concatenate(fills)).to(x)[keep]
    federation = _with(federation, x[:, keep], None if test_x is None else test_x[:, keep])
    return _treated(federation, Features(tuple(learned), fill))


def _treated(federation: Federation, learned: Features) -> Federation:
    """What was learned done to all rows, and added to what was learned before."""
    test_x, owner = federation.examples.test_x, torch.from_numpy(federation.owner)
    x = learned.apply(federation.examples.x, owner)
    federation = _with(federation, x, None if test_x is None else learned.apply(test_x))
    if learned.scale != "none":
        had = federation.features
        learned = replace(learned, columns=had.columns, fill=had.fill)
    return replace(federation, features=learned)


def _median(values: np.ndarray, name: str) -> np.ndarray:
    present = values[~np.isnan(values)]
    if not len(present):
        raise DataError(
            f"column '{name}' is empty in all training rows, so there is nothing to fill it "
            "with; drop it."
        )
    return np.array([np.median(present)])


def _mode(levels: np.ndarray) -> np.ndarray:
    """The most frequent level as one row."""
    most: np.ndarray = np.arange(levels.shape[1]) == np.nansum(levels, axis=0).argmax()
    return most.astype(float)


def _pooled(federation: Federation) -> Features:
    """Table columns or image channels to mean 0 and variance 1 over all training rows.

    Columns that hold only 0 and 1 stay as they are, columns that never vary become 0.
    """
    x, rows = federation.examples.x, _training(federation)
    if x.ndim == 2:
        mean, spread = (moment.to(x.dtype) for moment in _column_moments(x[rows]))
    elif x.ndim == 4:
        mean, spread = _channel_moments(x, rows)
    else:
        raise DataError(f"rows of shape {tuple(x.shape[1:])} are neither a table nor images.")
    return Features(scale="pooled", mean=mean, spread=spread)


def _by_client(federation: Federation) -> Features:
    """Table columns to mean 0 and variance 1 over each client's own training rows.

    Columns that hold only 0 and 1 stay as they are. Where a client's training rows do not vary,
    the spread of all training rows is used; held-out clients and the dataset's own test set have
    no training rows, so they take both mean and spread from all of them.
    """
    x = federation.examples.x
    if x.ndim != 2:
        raise DataError(
            f"only tables can be standardised client by client, not rows of {tuple(x.shape[1:])}."
        )
    train, owner = _training(federation), torch.from_numpy(federation.owner)
    mine, rows = owner[train], x[train].double()
    total = federation.n_clients + federation.n_new
    count = torch.from_numpy(federation.sizes(TRAIN)).clamp(min=1)[:, None]

    def by_client(values: Tensor) -> Tensor:
        return torch.zeros(total, x.shape[1], dtype=torch.float64).index_add_(0, mine, values)

    mean = by_client(rows) / count
    spread = (by_client((rows - mean[mine]) ** 2) / count).sqrt()
    all_mean, all_spread = _column_moments(x[train])
    spread = torch.where(spread > 1e-6 * mean.abs(), spread, all_spread)
    mean[federation.n_clients :] = all_mean
    spread[federation.n_clients :] = all_spread
    dummy = _is_dummy(x[train])
    mean[:, dummy], spread[:, dummy] = 0.0, 1.0
    return Features(
        scale="client", mean=all_mean, spread=all_spread, own_mean=mean, own_spread=spread
    )


def _training(federation: Federation) -> Tensor:
    """The training rows; held-out clients have none."""
    return torch.from_numpy(np.flatnonzero(federation.part == TRAIN))


def _with(federation: Federation, x: Tensor, test_x: Tensor | None) -> Federation:
    return replace(federation, examples=replace(federation.examples, x=x, test_x=test_x))


def _column_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread of each column; 0 and 1 for columns of zeros and ones."""
    spread, mean = torch.std_mean(x.double(), dim=0, correction=0)
    dummy = _is_dummy(x)
    mean = torch.where(dummy, 0.0, mean)
    # Rounding can leave a constant column with a spread of a few ulps.
    return mean, torch.where(dummy | (spread <= 1e-6 * mean.abs()), 1.0, spread)


def _channel_moments(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread of each channel over some images, without a copy of them all."""
    count = len(rows) * x.shape[2] * x.shape[3]
    chunks = torch.split(rows, CHUNK)
    mean = sum(x[chunk].double().sum((0, 2, 3)) for chunk in chunks) / count
    mean = torch.as_tensor(mean).reshape(1, -1, 1, 1)
    square = sum(((x[chunk].double() - mean) ** 2).sum((0, 2, 3)) for chunk in chunks) / count
    spread = torch.as_tensor(square).sqrt().reshape(mean.shape)
    return mean.to(x.dtype), torch.where(spread > 0, spread, 1.0).to(x.dtype)


def _is_dummy(x: Tensor) -> Tensor:
    """Which columns hold only 0 and 1."""
    return ((x == 0) | (x == 1)).all(0)
