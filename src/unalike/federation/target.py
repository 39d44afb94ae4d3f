"""From a wanted EMD to the settings of each sampler that reach it.

Closed forms against a uniform pooled distribution of M classes, K clients:

ll(t, f)     2f (1 - t/M)       f = EMD / (2 (1 - t/M)),  kept if f <= 1
q(q)         2 |q - 1/M|        q = 1/M + EMD/2, then q = 1/M - EMD/2, kept if in [0, 1]
ll_q(t, q)   2 |q - t/M|        q = t/M + EMD/2,          kept if q <= 1 and t < M
Dir_K(a)     every draw is brought to the EMD;  means end at 2 (1 - 1/K)(1 - 1/M) as a -> 0

FedAug can only fill classes of which a client has an example, so all settings keep one example of
each class for every client. That lowers the EMD of the purest of them, by 2 (M - t) K / N for ll(t,
1); the EMD that was reached is reported with the partition.
"""

from collections.abc import Callable
from math import gcd

from unalike.errors import ConfigError, unknown
from unalike.federation.partition.base import Partitioner
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.federation.partition.dirichlet_emd import (
    ALPHA_RANGE,
    emd_dirichlet,
    emd_dirichlet_supremum,
)
from unalike.federation.partition.emd import Emd
from unalike.federation.partition.label_sets import require_even
from unalike.federation.partition.limit_label import LimitLabel, emd_limit_label
from unalike.federation.partition.limit_label_q import LimitLabelQ
from unalike.federation.partition.q_sampler import QSampler

TOLERANCE = 1e-9  # f = 0.4 / (2 (1 - 8/10)) is one in arithmetic and more in floating point


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
        f"no fewer labels than all {classes} can be split evenly among {clients} client(s); use "
        f"a number of clients that has a divisor in common with {classes}, such as {classes}"
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
    """The t for which t labels per client can be split evenly: multiples of M / gcd(K, M)."""
    step = classes // gcd(clients, classes)
    return list(range(step, classes + 1, step))


def _limit_label(target: float, clients: int, classes: int) -> list[Partitioner]:
    return [
        LimitLabel(clients=clients, t=t, f=min(target / most, 1.0) if most else 0.0, keep_one=True)
        for t in _even_label_counts(clients, classes)
        if target <= (most := emd_limit_label(t, 1.0, classes)) + TOLERANCE
    ]


def _q_sampler(target: float, clients: int, classes: int) -> list[Partitioner]:
    branches = (1 / classes + target / 2, 1 / classes - target / 2)
    return [
        QSampler(clients=clients, q=min(max(q, 0.0), 1.0), keep_one=True)
        for q in dict.fromkeys(branches)
        if -TOLERANCE <= q <= 1 + TOLERANCE
    ]


def _limit_label_q(target: float, clients: int, classes: int) -> list[Partitioner]:
    return [
        LimitLabelQ(clients=clients, t=t, q=min(t / classes + target / 2, 1.0), keep_one=True)
        for t in _even_label_counts(clients, classes)
        if t < classes and t / classes + target / 2 <= 1 + TOLERANCE
    ]


def _dirichlet(target: float, clients: int, classes: int) -> list[Partitioner]:
    if clients == 1:  # whatever the concentration
        return [Dirichlet(clients=1, keep_one=True)]
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
    return [Dirichlet(clients=clients, target=target, keep_one=True)]


def _emd(target: float, clients: int, classes: int) -> list[Partitioner]:
    return [Emd(clients=clients, target=target, keep_one=True)]


_INVERSES: dict[str, Callable[[float, int, int], list[Partitioner]]] = {
    "limit_label": _limit_label,
    "q_sampler": _q_sampler,
    "limit_label_q": _limit_label_q,
    "dirichlet": _dirichlet,
    "emd": _emd,
}
TARGETED: tuple[str, ...] = tuple(_INVERSES)
