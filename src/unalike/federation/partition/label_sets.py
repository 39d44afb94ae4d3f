"""The priority labels of the label-limiting samplers, and when they can be dealt evenly."""

from math import gcd

import numpy as np

from unalike.errors import ConfigError


def priority_labels(
    sampler: str, clients: int, classes: int, t: int, rng: np.random.Generator
) -> np.ndarray:
    """Which of ``t`` labels each client owns, bool [clients, classes].

    Walking t steps per client around a random circle of classes gives every client t different
    labels and every label t*clients/classes owners.
    """
    require_even(sampler, clients, classes, t)
    circle = rng.permutation(classes)
    steps = np.arange(clients)[:, None] * t + np.arange(t)
    owned = np.zeros((clients, classes), dtype=bool)
    np.put_along_axis(owned, circle[steps % classes], True, axis=1)
    return owned


def require_even(sampler: str, clients: int, classes: int, t: int = 1) -> None:
    """Refuses a number of clients over which ``t`` labels each cannot be dealt evenly."""
    step = classes // gcd(classes, t)
    if clients % step == 0:
        return
    below = clients // step * step
    near = f"{below} and {below + step}" if below else f"{step}"
    raise ConfigError(
        f"{sampler}: {t} label(s) per client over {classes} classes need a number of clients that "
        f"is a multiple of {step}, got {clients}; nearest valid: {near}."
    )
