"""One example of each class for every client, so that FedAug has something to start from."""

from typing import Annotated

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.partition.rounding import Floats, Ints

KeepOne = Annotated[
    bool, Field(description="give every client at least one example of each class in the data")
]


def scarce(class_sizes: Ints, clients: int) -> Ints:
    """The classes that have examples, but not one for each client."""
    return np.flatnonzero((class_sizes > 0) & (class_sizes < clients))


def at_least_one(sampler: str, expected: Floats, class_sizes: Ints) -> Floats:
    """Expected counts with entries below one lifted to one, at the cost of the others of a class.

    The total of a class stays what it was, so this lowers the EMD: by twice the share of the
    examples that are given away.
    """
    clients = len(expected)
    few = scarce(class_sizes, clients)
    if len(few):
        raise DataError(
            f"{sampler}: keep_one needs {clients} examples of each class and class {few[0]} "
            f"has {class_sizes[few[0]]}; use fewer clients or keep_one = false."
        )
    held = class_sizes > 0
    low = np.zeros(expected.shape, dtype=bool)
    lifted = expected
    while (new := (lifted < 1 - 1e-9) & held).any():  # paying for others can make entries small
        low |= new
        rest = np.where(low, 0.0, expected)
        scale = (class_sizes - low.sum(axis=0)) / np.maximum(rest.sum(axis=0), 1e-12)
        lifted = np.where(low & held, 1.0, rest * scale)
    return lifted
