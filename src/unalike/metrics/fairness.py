"""How evenly a metric is spread over the clients."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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
        return dict(vars(self))


def summarise(values: ArrayLike, sizes: ArrayLike, higher_is_better: bool = True) -> Spread:
    """The spread of one metric over clients.

    The worst and best groups have k = max(1, floor(N/10)) of the N clients with a value; of equal
    values the smaller client ranks lower, so the order of the clients has no effect.

    Args:
        values: One value per client, NaN where the metric is undefined for the client.
        sizes: Test examples of each client.
        higher_is_better: False for a loss, whose worst clients have the largest values.
    """
    return summarise_all({"": values}, sizes, lambda _: higher_is_better)[""]


def summarise_all(
    metrics: Mapping[str, ArrayLike], sizes: ArrayLike, higher: Callable[[str], bool]
) -> dict[str, Spread]:
    """``summarise`` of many metrics of the same clients, in a few calls for all of them.

    ``higher`` says of each name whether a large value is a good one.
    """
    m = np.asarray(sizes, float)
    named = {name: np.asarray(values, float) for name, values in metrics.items()}
    alike: dict[bytes, list[str]] = {}  # metrics that are defined for the same clients
    for name, v in named.items():
        _check(v, m)
        alike.setdefault(np.isnan(v).tobytes(), []).append(name)
    found: dict[str, Spread] = {}
    for names in alike.values():
        defined = ~np.isnan(named[names[0]])
        rows = np.stack([named[name][defined] for name in names])
        spreads = _spreads(rows, m[defined], len(m) - rows.shape[1], [*map(higher, names)])
        found |= dict(zip(names, spreads, strict=True))
    return {name: found[name] for name in named}


def _spreads(
    v: NDArray[np.float64], m: NDArray[np.float64], undefined: int, higher: list[bool]
) -> Iterator[Spread]:
    """Of each row of values, one for each client."""
    n = v.shape[1]
    if n == 0:
        yield from [Spread(0, undefined, *[float("nan")] * 10)] * len(v)
        return
    k = max(1, n // 10)
    sizes = np.broadcast_to(m, v.shape)
    order = np.lexsort((sizes, v))
    ascending, weights = (np.take_along_axis(a, order, 1) for a in (v, sizes))
    low, high = (_weighted(ascending[:, g], weights[:, g]) for g in (slice(k), slice(-k, None)))
    columns = (
        *(v.mean(1), _weighted(v, sizes), v.std(1), np.median(v, 1), v.min(1), v.max(1)),
        *(np.where(higher, low, high), np.where(higher, high, low), high - low),
        [_gini(row) for row in ascending],
    )
    for row in zip(*columns, strict=True):
        yield Spread(n, undefined, *map(float, row))


def _weighted(v: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weighted mean of each row."""
    mean: NDArray[np.float64] = (v * weights).sum(1) / weights.sum(1)
    return mean


def gini(values: ArrayLike) -> float:
    """Gini coefficient: 0 if all are equal, 1 - 1/N if one client has everything.

    G = sum_i (2i - N - 1) v_(i) / (N sum v), the v_(i) ascending. All zeros are equal, hence 0;
    with negative values the coefficient has no meaning and is NaN.
    """
    return _gini(np.sort(np.asarray(values, float)))


def _gini(v: NDArray[np.float64]) -> float:
    """Of ascending values."""
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
