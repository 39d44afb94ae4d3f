"""From wanted label mixes to a table of counts in which no example is used twice."""

import numpy as np

from unalike.federation.partition.rounding import Floats, Ints, round_columns, settle_rows

SWEEPS = 200


def table_of_mixes(mixes: Floats, sizes: Ints, class_sizes: Ints) -> Ints:
    """Counts [clients, classes] with both sums exact and label mixes nearest to ``mixes``.

    Mixes drawn client by client ask for more of some classes than there is. Every mix is tilted,
    q_kc exp(lambda_c), until the classes come out even: iterative proportional fitting, the table
    nearest in relative entropy. Where zeros of the wanted table leave no such table, the sweeps
    stop and what is missing is spread by size.
    """
    expected = _fitted(mixes, sizes, class_sizes)
    return settle_rows(round_columns(expected, class_sizes), expected, sizes)


def table_of_exact_mixes(mixes: Floats, class_sizes: Ints, least: int) -> Ints:
    """Counts [clients, classes] of equal clients whose label mixes are ``mixes``.

    Clients are as large as the most requested class allows, and what is left of the other classes
    stays unused. The mixes give way only if clients would hold fewer than ``least`` examples.
    """
    clients, total = len(mixes), int(class_sizes.sum())
    demand = mixes.sum(axis=0)
    asked = demand > 0
    size = max(int((class_sizes[asked] / demand[asked]).min() + 1e-9), least)
    rest = np.maximum(class_sizes - size * demand, 0.0)
    # The rest is one client more, which takes what nobody asks for, so that nobody has to give way.
    rest = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1 / len(rest))
    sizes = np.append(np.full(clients, size), total - clients * size)
    return table_of_mixes(np.vstack([mixes, rest]), sizes, class_sizes)[:-1]


def _fitted(mixes: Floats, sizes: Ints, class_sizes: Ints) -> Floats:
    with np.errstate(divide="ignore"):
        logs = np.log(mixes)
    tilt = np.zeros(len(class_sizes))
    for _ in range(SWEEPS):
        table = np.exp(logs + tilt - (logs + tilt).max(axis=1, keepdims=True))
        table *= (sizes / table.sum(axis=1))[:, None]
        demand = table.sum(axis=0)
        if np.abs(demand - class_sizes).max() < 1e-3:
            break
        asked = demand > 1e-290
        tilt[asked] += np.log(class_sizes[asked] / demand[asked])
    table = table * np.minimum(_ratio(class_sizes, demand), 1.0)
    short, spare = sizes - table.sum(axis=1), class_sizes - table.sum(axis=0)
    return table + np.outer(short, spare / max(spare.sum(), 1e-12))


def _ratio(goal: Ints, value: Floats) -> Floats:
    """``goal / value``, and 0 where there is nothing to scale."""
    return np.divide(goal, value, out=np.zeros(len(goal)), where=value > 1e-290)
