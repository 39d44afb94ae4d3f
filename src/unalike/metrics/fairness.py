"""How evenly a metric is spread over the clients."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unalike.errors import DataError


@dataclass(frozen=True)
class Spread:
    """A metric over clients in a dozen numbers; all NaN but the counts if no client has a value."""

    clients: int  # clients with a value
    undefined: int  # clients without, which enter nothing below
    mean: float  # every client counts the same
    weighted_mean: float  # every example counts the same
    std: float  # of the population
    median: float
    min: float
    max: float
    worst10: float  # example-weighted mean of the worst tenth of the clients
    best10: float
    parity_gap: float  # between worst10 and best10
    gini: float

    def as_dict(self) -> dict[str, float]:
        """The fields by name, as a run's record stores them."""
        return asdict(self)


def summarise(values: ArrayLike, sizes: ArrayLike, higher_is_better: bool = True) -> Spread:
    """The spread of one metric over clients.

    The worst and best groups have k = max(1, floor(N/10)) of the N clients with a value; of equal
    values the smaller client ranks lower, so the order of the clients has no effect.

    Args:
        values: One value per client, NaN where the metric is undefined for the client.
        sizes: Test examples of each client.
        higher_is_better: False for a loss, whose worst clients have the largest values.
    """
    v, m = np.asarray(values, float), np.asarray(sizes, float)
    _check(v, m)
    defined = ~np.isnan(v)
    undefined = int(np.count_nonzero(~defined))
    v, m = v[defined], m[defined]
    n = len(v)
    if n == 0:
        return Spread(0, undefined, *[float("nan")] * 10)

    k = max(1, n // 10)
    order = np.lexsort((m, v))
    low, high = (float(np.average(v[g], weights=m[g])) for g in (order[:k], order[-k:]))
    return Spread(
        clients=n,
        undefined=undefined,
        mean=float(v.mean()),
        weighted_mean=float(np.average(v, weights=m)),
        std=float(v.std()),
        median=float(np.median(v)),
        min=float(v.min()),
        max=float(v.max()),
        worst10=low if higher_is_better else high,
        best10=high if higher_is_better else low,
        parity_gap=high - low,
        gini=gini(v),
    )


def gini(values: ArrayLike) -> float:
    """Gini coefficient: 0 if all are equal, 1 - 1/N if one client has everything.

    G = sum_i (2i - N - 1) v_(i) / (N sum v), the v_(i) ascending. All zeros are equal, hence 0;
    with negative values the coefficient has no meaning and is NaN.
    """
    v = np.sort(np.asarray(values, float))
    n = len(v)
    if n == 0 or v[0] < 0:
        return float("nan")
    if v[-1] == 0:
        return 0.0
    v = v / v[-1]  # the scale has no effect, and sums of tiny or huge values stay in range
    return float((2 * np.arange(1, n + 1) - n - 1) @ v / (n * v.sum()))


def _check(v: NDArray[np.float64], m: NDArray[np.float64]) -> None:
    if v.ndim != 1 or v.shape != m.shape:
        raise DataError(
            f"values and sizes must be vectors over the same clients, got shapes {v.shape} "
            f"and {m.shape}."
        )
    if np.isinf(v).any():
        raise DataError(
            f"client {np.flatnonzero(np.isinf(v))[0]} has an infinite value; "
            "give NaN where a metric is undefined."
        )
    bad = ~np.isnan(v) & ~((m > 0) & np.isfinite(m))
    if bad.any():
        k = np.flatnonzero(bad)[0]
        raise DataError(
            f"client {k} has a value but size {m[k]:g}; "
            "sizes count test examples and must be positive where there is a value."
        )
