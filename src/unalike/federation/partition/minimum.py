"""The least client size, kept by moving examples instead of by drawing again.

Drawing again until every client is large enough (the common code) need not end: with 100,000
clients and a small Dirichlet concentration no draw ever qualifies. One move of examples from the
largest clients always ends, touches few clients, and keeps label mixes:

* the largest clients are cut to a common level, each in proportion to its own label mix;
* a client that is filled gets, as far as the freed examples go, the class it holds most of.
"""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def top_up(
    owner: Ints,
    labels: Ints,
    clients: int,
    min_size: int,
    rng: np.random.Generator,
) -> Ints:
    """The owner vector with at least ``min_size`` examples per client; needs n >= their sum.

    Examples that nobody holds, of a negative owner, stay so.
    """
    held = np.flatnonzero(owner >= 0)
    if len(held) < len(owner):
        owner = owner.copy()
        owner[held] = top_up(owner[held], labels[held], clients, min_size, rng)
        return owner
    sizes = np.bincount(owner, minlength=clients)
    missing = np.maximum(min_size - sizes, 0)
    if not missing.any():
        return owner
    freed = _freed(owner, labels, _gifts(sizes, int(missing.sum())), rng)
    takers = np.repeat(np.arange(clients), missing)
    owner = owner.copy()
    owner[freed] = _matched(labels[freed], takers, _favourites(owner, labels, missing))
    return owner


def _gifts(sizes: Ints, total: int) -> Ints:
    """How many examples each client gives up, so that the largest are cut to one level."""
    low, high = 0, int(sizes.max())  # invariant: cutting to `low` frees enough, to `high` does not
    while high - low > 1:
        level = (low + high) // 2
        if np.maximum(sizes - level, 0).sum() >= total:
            low = level
        else:
            high = level
    gifts = np.maximum(sizes - low, 0)
    givers = np.flatnonzero(gifts)
    gifts[givers[: int(gifts.sum()) - total]] -= 1
    return gifts


def _freed(owner: Ints, labels: Ints, gifts: Ints, rng: np.random.Generator) -> Ints:
    """The rows given up: evenly spaced in each giver's rows sorted by label, hence its own mix."""
    rows: Ints = rng.permutation(np.flatnonzero(gifts[owner] > 0))
    rows = rows[np.lexsort((labels[rows], owner[rows]))]
    giver = owner[rows]
    size = np.bincount(giver, minlength=len(gifts))
    rank = np.arange(len(rows)) - (np.cumsum(size) - size)[giver]
    spaced = (rank + 1) * gifts[giver] // size[giver] > rank * gifts[giver] // size[giver]
    freed: Ints = rows[spaced]
    return freed


def _favourites(owner: Ints, labels: Ints, missing: Ints) -> Ints:
    """The class each client to be filled holds most of; -1 for the others and the empty ones."""
    rows = np.flatnonzero(missing[owner] > 0)
    classes = int(labels.max()) + 1
    cell, count = np.unique(owner[rows] * classes + labels[rows], return_counts=True)
    favourite = np.full(len(missing), -1)
    most_last = np.argsort(count, kind="stable")  # a later write wins
    favourite[cell[most_last] // classes] = cell[most_last] % classes
    return favourite


def _matched(freed_labels: Ints, takers: Ints, favourite: Ints) -> Ints:
    """The new owner of each freed row: first those whose favourite class it is, then the rest."""
    classes = int(freed_labels.max()) + 1
    wish = np.where(favourite[takers] < classes, favourite[takers], -1)
    rows, slots = np.argsort(freed_labels, kind="stable"), np.argsort(wish, kind="stable")
    offered = np.bincount(freed_labels, minlength=classes + 1)
    wished = np.bincount(wish[wish >= 0], minlength=classes + 1)  # the entry at -1 stays 0
    row_served = _rank(freed_labels[rows]) < wished[freed_labels[rows]]
    slot_served = _rank(wish[slots]) < np.where(wish[slots] < 0, 0, offered[wish[slots]])
    new_owner = np.empty(len(rows), dtype=np.int64)
    new_owner[rows[row_served]] = takers[slots[slot_served]]
    # The others are paired by label and by client, so that a filled client stays of few classes.
    new_owner[rows[~row_served]] = np.sort(takers[slots[~slot_served]])
    return new_owner


def _rank(sorted_values: Ints) -> Ints:
    """The position of each entry within its run of equal values."""
    starts = np.flatnonzero(np.diff(sorted_values, prepend=sorted_values[0] - 1))
    runs = np.diff(starts, append=len(sorted_values))
    return np.arange(len(sorted_values)) - np.repeat(starts, runs)
