"""What the data settle about the split: rows with a part of their own, rows that go together.

Units (a patient with several visits) are assigned whole, in random order: to the test rows of a
client while they fit there by half at least, then to its validation rows, then to its training
rows. A unit with rows of several clients has one part everywhere, that of the client with most of
it.
"""

import numpy as np

from unalike.errors import DataError
from unalike.federation.data import FREE, PARTS, TEST, TRAIN, VALIDATION

_WORDS = {**PARTS, "training": TRAIN, "val": VALIDATION, "valid": VALIDATION, "dev": VALIDATION}
_WORDS |= {"testing": TEST, "": FREE}


def parts_of(values: np.ndarray, column: str) -> np.ndarray:
    """The part of each row from what a column calls it; an empty cell leaves it to the split."""
    texts = [str(value).strip().lower() for value in values]
    strange = sorted(set(texts) - _WORDS.keys())
    if strange:
        raise DataError(
            f"column '{column}' says '{strange[0]}', but a split column says train, validation or "
            "test."
        )
    return np.array([_WORDS[text] for text in texts], dtype=np.int8)


def together(
    owner: np.ndarray, units: np.ndarray, totals: np.ndarray, lot: np.ndarray
) -> np.ndarray:
    """The part of each row, the same for all rows of a unit.

    Args:
        owner: The client of each row.
        units: The unit of each row, 0..U-1.
        totals: How many rows each client [K] is to have of [TRAIN, VALIDATION, TEST].
        lot: A random number for each row.
    """
    count = int(units.max()) + 1
    pairs, sizes = np.unique(np.stack([units, owner], 1), axis=0, return_counts=True)
    home = np.empty(count, np.int64)
    for place in np.argsort(sizes, kind="stable"):  # the last one written holds most
        home[pairs[place, 0]] = pairs[place, 1]
    first = np.full(count, np.inf)
    np.minimum.at(first, units, lot)
    size = np.bincount(units, minlength=count)
    left, chosen = totals.copy(), np.full(count, TRAIN, np.int8)
    for unit in np.argsort(first):
        k, rows = home[unit], size[unit]
        part = next((p for p in (TEST, VALIDATION) if left[k, p] >= rows / 2), TRAIN)
        chosen[unit] = part
        left[k, part] -= rows
    trained = np.zeros(len(totals), bool)
    trained[owner[chosen[units] == TRAIN]] = True
    for k in np.flatnonzero(~trained):  # a client trains with its largest unit at least
        own = np.unique(units[owner == k])
        if len(own):
            chosen[own[size[own].argmax()]] = TRAIN
    return chosen[units]
