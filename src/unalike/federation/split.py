"""Which of a client's examples train, validate and test, and which clients are held out whole.

The rule, for a client with n examples and shares s of training, validation and test:

1. The three totals are s * n, rounded by largest remainder (ties: training, then test); a client
   left without a training example gets one back, from validation if it has any, else from test.
2. The test total is divided among the client's classes in proportion to their size, rounded by
   largest remainder (ties at random), so each class is within one of its exact share. Then the
   validation total is divided in the same way among what is left. A class that would lose its last
   training example by that keeps it, as long as the client's other classes have more than one to
   give instead.
3. Within a client and class, who goes where is drawn at random; without stratification within a
   client, whatever the classes.

So a client of two or three examples may have nothing to test on; it still trains. Where the data
say what a row is for, or which rows go together, that comes first (``federation/given.py``).
"""

from collections.abc import Sequence

import numpy as np

from unalike.errors import ConfigError, DataError
from unalike.federation.data import ADAPT, FREE, TEST, TRAIN, VALIDATION, Examples, Federation
from unalike.federation.given import together


def split(
    examples: Examples,
    owner: np.ndarray,
    *,
    validation: float = 0.1,
    test: float = 0.2,
    new_clients: int = 0,
    adapt: bool = False,
    stratified: bool = True,
    rng: np.random.Generator,
    names: tuple[str, ...] = (),
    marks: tuple[str, ...] = (),
) -> Federation:
    """A federation in which client ``owner[i]`` holds example i.

    Args:
        examples: The dataset; its own test set, if any, stays the global one.
        owner: Clients 0..K-1, each with an example at least.
        validation: Share of each client's examples.
        test: Share of each client's examples.
        new_clients: How many clients, drawn at random, are held out whole: they come last and all
            their examples are for testing. The draws are nested: a larger number holds out the
            same clients and more.
        adapt: Whether the held-out clients keep what would be their training rows to learn from
            before they are tested on the others.
        stratified: Whether a client's classes are divided in proportion.
        rng: One draw for each example, then one for each client, whatever the other arguments.
        names: What the clients are called.
        marks: What sets each client apart; empty words say nothing.
    """
    _check_shares(validation, test)
    owner = np.asarray(owner)
    if owner.shape != (len(examples),) or owner.dtype.kind not in "iu":
        raise DataError(
            f"owner must be one whole number for each of the {len(examples)} examples, "
            f"got {owner.dtype} of shape {owner.shape}."
        )
    if not len(owner) or owner.min() < 0:
        raise DataError("owner must give each example to a client numbered from 0.")
    owner = owner.astype(np.int64)
    size = np.bincount(owner)
    if not size.all():
        raise DataError(f"client {int(size.argmin())} of {len(size)} has no example.")
    for what, words in (("names", names), ("marks", marks)):
        if words and len(words) != len(size):
            raise DataError(f"{len(words)} client {what} for {len(size)} clients.")
    if not 0 <= new_clients < len(size):
        raise ConfigError(
            f"new_clients must be 0 to {len(size) - 1} for {len(size)} clients, got {new_clients}."
        )
    lot = rng.random(len(owner))
    strata = examples.strata if stratified else np.zeros(len(owner), np.int64)
    part = _parts(examples, owner, strata, (validation, test), lot)

    order = rng.permutation(len(size))
    is_new = np.zeros(len(size), bool)
    is_new[order[:new_clients]] = True
    number = np.argsort(np.argsort(is_new, kind="stable"), kind="stable")  # the new ones come last
    new = is_new[owner]
    part[new] = np.where(adapt & (part[new] == TRAIN), ADAPT, TEST)
    federation = Federation(
        examples=examples,
        owner=number[owner],
        part=part,
        n_clients=len(size) - new_clients,
        n_new=new_clients,
        names=tuple(names[k] for k in np.argsort(number)) if names else (),
    )
    return federation.marked([marks[k] for k in np.argsort(number)]) if marks else federation


def _parts(
    examples: Examples,
    owner: np.ndarray,
    strata: np.ndarray,
    shares: tuple[float, float],
    lot: np.ndarray,
) -> np.ndarray:
    """What each row is for: as the data say, the rest by shares."""
    fixed = examples.part
    if fixed is None:
        return _dealt(strata, examples.units, owner, shares, lot)
    free, part = fixed == FREE, fixed.copy()
    if free.any():
        # Where the data bring validation or test rows, no more of them are taken.
        brought = [bool((fixed == p).any()) for p in (VALIDATION, TEST)]
        rest = [0.0 if here else share for here, share in zip(brought, shares, strict=True)]
        units = None if examples.units is None else examples.units[free]
        mine = np.unique(owner[free], return_inverse=True)[1]
        part[free] = _dealt(strata[free], units, mine, (rest[0], rest[1]), lot[free])
    return part


def _dealt(
    strata: np.ndarray,
    units: np.ndarray | None,
    owner: np.ndarray,
    shares: tuple[float, float],
    lot: np.ndarray,
) -> np.ndarray:
    totals = _totals(np.bincount(owner), *shares)
    if units is None:
        return _deal(owner, strata, totals, lot)
    return together(owner, np.unique(units, return_inverse=True)[1], totals, lot)


def training_rows(sizes: Sequence[int], validation: float, test: float) -> list[int]:
    """How many of so many rows of each client train, where the data do not say which ones do.

    >>> training_rows([100, 3, 1], 0.1, 0.2)
    [70, 2, 1]
    """
    totals = _totals(np.asarray(sizes), validation, test)
    return [int(n) for n in totals[:, TRAIN]]


def _check_shares(validation: float, test: float) -> None:
    for name, share in (("validation", validation), ("test", test)):
        if not 0 <= share < 1:
            raise ConfigError(f"{name} must be a share from 0 to below 1, got {share}.")
    if validation + test >= 1:
        raise ConfigError(
            f"validation and test must leave something to train on, got {validation} + {test}."
        )


def _totals(size: np.ndarray, validation: float, test: float) -> np.ndarray:
    """Examples of each client [K] for [TRAIN, VALIDATION, TEST]."""
    shares = np.array([1 - validation - test, validation, test])
    exact = size[:, None] * shares
    # Largest remainder, client by client; stable sorting breaks ties in this order of parts.
    favoured = [TRAIN, TEST, VALIDATION]
    client = np.repeat(np.arange(len(size)), 3)
    totals = np.empty((len(size), 3), np.int64)
    totals[:, favoured] = _apportion(
        exact[:, favoured].ravel(), client, size, np.tile([0.0, 1.0, 2.0], len(size))
    ).reshape(-1, 3)
    bare = totals[:, TRAIN] == 0
    giver = np.where(totals[:, VALIDATION] > 0, VALIDATION, TEST)[bare]
    totals[np.flatnonzero(bare), giver] -= 1
    totals[bare, TRAIN] += 1
    return totals


def _deal(owner: np.ndarray, strata: np.ndarray, totals: np.ndarray, lot: np.ndarray) -> np.ndarray:
    """The part of each example, given each client's totals and a random number per example."""
    classes = int(strata.max()) + 1
    cell = owner * classes + strata
    row = _by_cell(cell, lot)  # by client, by class, at random
    cell_of_row = cell[row]
    starts = np.flatnonzero(np.diff(cell_of_row, prepend=-1))
    count = np.diff(starts, append=len(row))
    client, tie = owner[row[starts]], lot[row[starts]]
    part = np.full(len(owner), TRAIN, np.int8)
    place = np.arange(len(row)) - np.repeat(starts, count)  # place of a row within its cell
    left, taken = count.copy(), np.zeros_like(count)
    for which in (TEST, VALIDATION):
        wanted = totals[:, which]
        size = np.bincount(client, left, minlength=len(totals))
        exact = left * (wanted / np.maximum(size, 1))[client]
        share = _spared(_apportion(exact, client, wanted, tie), left, client, tie)
        upper = np.repeat(taken + share, count)
        part[row[(place >= np.repeat(taken, count)) & (place < upper)]] = which
        taken, left = taken + share, left - share
    return part


def _by_cell(cell: np.ndarray, lot: np.ndarray) -> np.ndarray:
    """What ``lexsort`` gives, by one sort of sums, where they tell all lots in [0, 1) apart."""
    row = np.argsort(cell + lot)
    cells, lots = cell[row], lot[row]
    after, same = cells[1:] > cells[:-1], cells[1:] == cells[:-1]
    return row if (after | (same & (lots[1:] > lots[:-1]))).all() else np.lexsort((lot, cell))


def _spared(share: np.ndarray, left: np.ndarray, client: np.ndarray, tie: np.ndarray) -> np.ndarray:
    """The shares with the last example of a cell given back, and taken from cells with more."""
    last = ((share == left) & (left > 0)).astype(np.int64)
    spare = np.maximum(left - share - 1, 0)
    lost, found = (np.bincount(client, n).astype(np.int64) for n in (last, spare))
    moved = np.minimum(lost, found)
    back = _apportion(last * (moved / np.maximum(lost, 1))[client], client, moved, tie)
    instead = _apportion(spare * (moved / np.maximum(found, 1))[client], client, moved, tie)
    return share - back + instead


def _apportion(
    exact: np.ndarray, group: np.ndarray, totals: np.ndarray, tie: np.ndarray
) -> np.ndarray:
    """Whole numbers next to ``exact`` that sum to ``totals`` in each group: largest remainder.

    ``group`` is sorted; equal remainders are served in the order of ``tie``.
    """
    low = np.floor(exact + 1e-9)
    remainder = np.round(exact - low, 9)
    short = totals - np.bincount(group, low, minlength=len(totals)).astype(np.int64)
    # Remainders sum to what is short, so that only those above zero are served: of millions of
    # groups most need no sorting.
    served = np.flatnonzero((remainder > 0) & (short[group] > 0))
    if (np.bincount(group[served], minlength=len(totals)) < short).any():  # up to rounding
        served = np.arange(len(exact))
    mine, left = group[served], remainder[served]
    order = np.lexsort((tie[served], -left, mine))
    rank = np.arange(len(served)) - np.searchsorted(mine, np.arange(len(totals)))[mine]
    whole: np.ndarray = low.astype(np.int64)
    whole[served[order[rank < short[mine]]]] += 1
    return whole
