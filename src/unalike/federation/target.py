"""From a wanted EMD to the settings of each sampler that reach it.

Closed forms against a uniform pooled distribution of M classes, K clients:

ll(t, f)     2f (1 - t/M)       f = EMD / (2 (1 - t/M)),  kept if f <= 1
q(q)         2 |q - 1/M|        q = 1/M + EMD/2, then q = 1/M - EMD/2, kept if in [0, 1]
ll_q(t, q)   2 |q - t/M|        q = t/M + EMD/2,          kept if q <= 1 and t < M
Dir_K(a)     mean by simulation, bisection in log a;  sup = 2 (1 - 1/K)(1 - 1/M) as a -> 0

The form of ll holds without the examples that f = 1 keeps for the other clients, so its settings
turn ``keep_one`` off there.
"""

from collections.abc import Callable
from functools import lru_cache
from math import exp, gcd, log

import numpy as np

from unalike.errors import ConfigError, unknown
from unalike.federation.partition.base import Partitioner
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.federation.partition.emd import Emd
from unalike.federation.partition.label_sets import require_even
from unalike.federation.partition.limit_label import LimitLabel
from unalike.federation.partition.limit_label_q import LimitLabelQ
from unalike.federation.partition.q_sampler import QSampler

TOLERANCE = 1e-9  # f = 0.4 / (2 (1 - 8/10)) is one in arithmetic and more in floating point
ALPHA_RANGE = (1e-6, 1e6)
VARIATES = 400_000  # per simulated mean: its standard error is then below 0.001


def emd_limit_label(t: int, f: float, classes: int) -> float:
    """EMD of ll(t, f)."""
    return 2 * f * (1 - t / classes)


def emd_q_sampler(q: float, classes: int) -> float:
    """EMD of the q-sampler."""
    return 2 * abs(q - 1 / classes)


def emd_limit_label_q(t: int, q: float, classes: int) -> float:
    """EMD of ll_q(t, q)."""
    return 2 * abs(q - t / classes)


def emd_dirichlet_supremum(clients: int, classes: int) -> float:
    """The mean EMD that a per-class Dirichlet tends to, but does not reach, as alpha falls to 0."""
    return 2 * (1 - 1 / clients) * (1 - 1 / classes)


@lru_cache(maxsize=4096)
def emd_dirichlet(alpha: float, clients: int, classes: int, seed: int = 0) -> float:
    """Mean weighted EMD of a per-class Dirichlet with equal classes, by simulation.

    Two sums of squares with known means serve as control variates: the estimate is the intercept
    of a regression on their deviations, 2 to 7 times as accurate as the plain mean.
    """
    rng = np.random.default_rng(seed)
    draws = max(8, VARIATES // (clients * classes))
    s = rng.dirichlet(np.full(clients, alpha), (draws, classes))  # [draws, classes, clients]
    mean = s.mean(axis=1)
    # With n_kc = s_ck N/M:  (n_k/N) |p_k(c) - 1/M|  =  |s_ck - mean_c s_ck| / M.
    distance = np.abs(s - mean[:, None]).sum(axis=(1, 2)) / classes
    variance = (1 - 1 / clients) / clients / (clients * alpha + 1)  # of one s_ck
    squares = np.square(s).sum(axis=(1, 2)) - clients * classes * (variance + clients**-2)
    pooled = np.square(mean).sum(axis=1) - clients * (variance / classes + clients**-2)
    controls = np.column_stack([np.ones(draws), squares, pooled])
    return float(np.linalg.lstsq(controls, distance, rcond=None)[0][0])


@lru_cache(maxsize=1024)
def alpha_for(target_emd: float, clients: int, classes: int) -> float:
    """The concentration at which a per-class Dirichlet has the wanted mean EMD."""
    low, high = (log(a) for a in ALPHA_RANGE)
    while high - low > 1e-3:
        middle = (low + high) / 2
        if emd_dirichlet(exp(middle), clients, classes) > target_emd:
            low = middle
        else:
            high = middle
    return exp((low + high) / 2)


def settings_for(target_emd: float, sampler: str, clients: int, classes: int) -> list[Partitioner]:
    """Every setting of a sampler that reaches the wanted EMD, by ascending t.

    >>> [(s.t, round(s.f, 3)) for s in settings_for(1.4, "limit_label", 20, 10)]
    [(1, 0.778), (2, 0.875), (3, 1.0)]
    """
    low, high = reachable(sampler, clients, classes)
    if not low - TOLERANCE <= target_emd <= high + TOLERANCE:
        raise _unreachable(target_emd, sampler, clients, classes)
    found = _INVERSES[sampler](min(max(target_emd, low), high), clients, classes)
    return found


def reachable(sampler: str, clients: int, classes: int) -> tuple[float, float]:
    """The lowest and highest EMD of a sampler; for ``dirichlet`` both are limits, not reached."""
    if sampler not in _INVERSES:
        raise unknown("sampler with a target EMD", sampler, _INVERSES)
    if clients < 1 or classes < 2:
        raise ConfigError(
            f"label skew needs at least 1 client and 2 classes, got {clients} and {classes}."
        )
    if sampler == "dirichlet":
        return 0.0, emd_dirichlet_supremum(clients, classes)
    if sampler in ("q_sampler", "emd"):
        require_even(sampler, clients, classes)
        return 0.0, 2 - 2 / classes
    fewest = _even_label_counts(clients, classes)[0]
    if sampler == "limit_label_q" and fewest == classes:
        raise ConfigError(f"limit_label_q: {_coprime(clients, classes)}.")
    return 0.0, 2 - 2 * fewest / classes


def _coprime(clients: int, classes: int) -> str:
    return (
        f"no fewer labels than all {classes} can be dealt evenly to {clients} client(s); use a "
        f"number of clients that has a divisor in common with {classes}, such as {classes}"
    )


def _unreachable(target: float, sampler: str, clients: int, classes: int) -> ConfigError:
    low, high = reachable(sampler, clients, classes)
    if high == 0:
        why = "one client holds all examples; use more clients"
        if clients > 1:
            why = _coprime(clients, classes)
        return ConfigError(f"{sampler}: the EMD is always 0, not {target:g}, since {why}.")
    ends = f"above {low:g} and below" if sampler == "dirichlet" else f"{low:g} to"
    return ConfigError(
        f"{sampler}: an EMD of {target:g} cannot be reached with {clients} clients and "
        f"{classes} classes; use {ends} {high:.6g}."
    )


def _even_label_counts(clients: int, classes: int) -> list[int]:
    """The t for which t labels per client can be dealt evenly: multiples of M / gcd(K, M)."""
    step = classes // gcd(clients, classes)
    return list(range(step, classes + 1, step))


def _limit_label(target: float, clients: int, classes: int) -> list[Partitioner]:
    return [
        _without_kept(clients, t, min(target / most, 1.0) if most else 0.0)
        for t in _even_label_counts(clients, classes)
        if target <= (most := emd_limit_label(t, 1.0, classes)) + TOLERANCE
    ]


def _without_kept(clients: int, t: int, f: float) -> LimitLabel:
    return LimitLabel(clients=clients, t=t, f=f, keep_one=False if f == 1 else None)


def _q_sampler(target: float, clients: int, classes: int) -> list[Partitioner]:
    branches = (1 / classes + target / 2, 1 / classes - target / 2)
    return [
        QSampler(clients=clients, q=min(max(q, 0.0), 1.0))
        for q in dict.fromkeys(branches)
        if -TOLERANCE <= q <= 1 + TOLERANCE
    ]


def _limit_label_q(target: float, clients: int, classes: int) -> list[Partitioner]:
    return [
        LimitLabelQ(clients=clients, t=t, q=min(t / classes + target / 2, 1.0))
        for t in _even_label_counts(clients, classes)
        if t < classes and t / classes + target / 2 <= 1 + TOLERANCE
    ]


def _dirichlet(target: float, clients: int, classes: int) -> list[Partitioner]:
    if clients == 1:  # whatever the concentration
        return [Dirichlet(clients=1)]
    smallest, largest = ALPHA_RANGE
    most = min(emd_dirichlet(smallest, clients, classes), emd_dirichlet_supremum(clients, classes))
    least = emd_dirichlet(largest, clients, classes)
    if target in (0.0, emd_dirichlet_supremum(clients, classes)):
        raise _unreachable(target, "dirichlet", clients, classes)
    if not least < target < most:
        raise ConfigError(
            f"dirichlet: an EMD of {target:g} with {clients} clients and {classes} classes needs a "
            f"concentration outside {smallest:g} to {largest:g}; use an EMD above {least:.3g} and "
            f"below {most:.6g}."
        )
    return [Dirichlet(clients=clients, alpha=alpha_for(target, clients, classes))]


def _emd(target: float, clients: int, classes: int) -> list[Partitioner]:
    return [Emd(clients=clients, target=target)]


_INVERSES: dict[str, Callable[[float, int, int], list[Partitioner]]] = {
    "limit_label": _limit_label,
    "q_sampler": _q_sampler,
    "limit_label_q": _limit_label_q,
    "dirichlet": _dirichlet,
    "emd": _emd,
}
TARGETED: tuple[str, ...] = tuple(_INVERSES)
