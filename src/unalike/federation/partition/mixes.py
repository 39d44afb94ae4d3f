"""From wanted label mixes to a table of counts that uses every example exactly once."""

import numpy as np

from unalike.federation.partition.rounding import Floats, Ints, round_columns, settle_rows

SWEEPS = 200


def table_of_mixes(
    mixes: Floats, sizes: Ints, class_sizes: Ints, give: Floats | None = None
) -> Ints:
    """Counts [clients, classes] with both sums exact and label mixes nearest to ``mixes``.

    Mixes drawn client by client ask for more of some classes than there is. Every mix is tilted,
    q_kc exp(give_k lambda_c), until the classes come out even. With ``give`` = 1 for all this is
    iterative proportional fitting, the table nearest in relative entropy; a client with a smaller
    one keeps more of its mix. Where zeros of the wanted table leave no such table, the sweeps
    stop and what is missing is spread by size.
    """
    share = np.ones(len(sizes)) if give is None else give
    expected = _fitted(mixes, sizes, class_sizes, share[:, None])
    return settle_rows(round_columns(expected, class_sizes), expected, sizes)


def _fitted(mixes: Floats, sizes: Ints, class_sizes: Ints, give: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        logs = np.log(mixes)
    tilt = np.zeros(len(class_sizes))
    for _ in range(SWEEPS):
        table = np.exp(logs + give * tilt - (logs + give * tilt).max(axis=1, keepdims=True))
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
