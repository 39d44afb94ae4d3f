"""From wanted label mixes to a table of counts that uses every example exactly once."""

import numpy as np

from unalike.federation.partition.rounding import Floats, Ints, round_columns, settle_rows

SWEEPS = 200


def table_of_mixes(mixes: Floats, sizes: Ints, class_sizes: Ints) -> Ints:
    """Counts [clients, classes] with both sums exact and label mixes nearest to ``mixes``.

    Mixes drawn client by client ask for more of some classes than there is. Iterative proportional
    fitting gives the table with the right sums that is nearest in relative entropy (it keeps every
    odds ratio of the wanted table). Where zeros of the wanted table leave no such table, the
    sweeps stop and what is missing is spread by size.
    """
    expected = _fitted(mixes * sizes[:, None], sizes, class_sizes)
    return settle_rows(round_columns(expected, class_sizes), expected, sizes)


def _fitted(wanted: Floats, sizes: Ints, class_sizes: Ints) -> Floats:
    table = wanted
    for _ in range(SWEEPS):
        demand = table.sum(axis=0)
        if np.abs(demand - class_sizes).max() < 1e-3:
            break
        table = table * _ratio(class_sizes, demand)
        table = table * _ratio(sizes, table.sum(axis=1))[:, None]
    table = table * np.minimum(_ratio(class_sizes, table.sum(axis=0)), 1.0)
    short, spare = sizes - table.sum(axis=1), class_sizes - table.sum(axis=0)
    return table + np.outer(short, spare / max(spare.sum(), 1e-12))


def _ratio(goal: Ints, value: Floats) -> Floats:
    """``goal / value``, and 0 where there is nothing to scale."""
    return np.divide(goal, value, out=np.zeros(len(goal)), where=value > 1e-290)
