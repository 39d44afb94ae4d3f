"""The priority labels of the label-limiting samplers, and when they can be split evenly."""

from math import gcd

import numpy as np

from unalike.errors import ConfigError

SWEEPS = 30  # trades of every client; six are enough for sets not to tell where they started


def priority_labels(
    sampler: str, clients: int, classes: int, t: int, rng: np.random.Generator
) -> np.ndarray:
    """Which of ``t`` labels each client owns, bool [clients, classes], drawn at random.

    Every client has t different labels and every label t*clients/classes owners. A first table of
    this kind is shuffled by trades: two clients pool the labels that only one of them owns and deal
    them out again at random (Strona et al. 2014), which in the long run makes all tables of this
    kind equally probable (Carstens 2015).
    """
    require_even(sampler, clients, classes, t)
    steps = np.arange(clients)[:, None] * t + np.arange(t)
    owned = np.zeros((clients, classes), dtype=bool)
    np.put_along_axis(owned, steps % classes, True, axis=1)
    for _ in range(SWEEPS if clients > 1 else 0):
        one, other = rng.permutation(clients)[: clients // 2 * 2].reshape(2, -1)
        owned[one], owned[other] = _traded(owned[one], owned[other], rng)
    return owned


def _traded(
    one: np.ndarray, other: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Both tables after each row of one has traded with the same row of the other."""
    pool = one ^ other
    lot = np.where(pool, rng.random(pool.shape), 2.0)  # what is not traded comes last
    rank = np.argsort(np.argsort(lot, axis=1), axis=1)
    first = pool & (rank < (one & pool).sum(axis=1, keepdims=True))
    both = one & other
    return both | first, both | (pool & ~first)


def require_even(sampler: str, clients: int, classes: int, t: int = 1) -> None:
    """Refuses a number of clients among which ``t`` labels each cannot be split evenly."""
    step = classes // gcd(classes, t)
    if clients % step == 0:
        return
    below = clients // step * step
    near = f"{below} and {below + step}" if below else f"{step}"
    raise ConfigError(
        f"{sampler}: {t} label(s) per client over {classes} classes need a number of clients that "
        f"is a multiple of {step}, got {clients}; nearest valid: {near}."
    )
