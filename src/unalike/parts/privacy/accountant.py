"""What the noise of a run is worth: (epsilon, delta) at the level of clients.

A client's clipped update moves the sum of a round by at most s C: s = 2 if its data are replaced
by any other data, s = 1 if it is left out of the sum. Noise of standard deviation z C makes every
round a Gaussian mechanism of multiplier z / s. T of them compose to one of (z / s) / sqrt(T), whose
epsilon is known exactly (Balle & Wang 2018, Theorem 8). A uniform sample of m of N clients
without replacement is worth less (Wang et al. 2019, Theorem 27, for replacement); the smaller of
the two bounds counts. A server that sees single updates knows who was sampled: no amplification.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch

from unalike.errors import ConfigError
from unalike.parts.participation.schedule import Schedule
from unalike.parts.privacy.guarantee import Guarantee
from unalike.rng import Key


class Accountant:
    """Epsilon after every round of a run; a pure function of the round, so a resumed run agrees."""

    def __init__(
        self, promise: Guarantee, schedule: Schedule, span: range, n_clients: int, key: Key
    ) -> None:
        """``span`` are the rounds that release updates; says at once if the package is missing."""
        self.promise, self.n, self.last = promise, n_clients, span.stop - 1
        self.plan = lambda t: schedule.plan(t, span, n_clients, key)
        self.sent, self.upto = torch.zeros(n_clients, dtype=torch.long), 0
        if promise.noise:
            _library()

    def __call__(self, t: int) -> float:
        """Epsilon after round ``t``, counted from zero; infinite without noise."""
        promise = self.promise
        if not promise.noise:
            return math.inf
        t = min(t, self.last)  # in later rounds nothing leaves the clients
        z, delta = promise.multiplier, promise.delta
        if promise.local:
            return gaussian(z, self._most(t), delta)
        m = len(self.plan(0).ids)
        plain = gaussian(z, t + 1, delta)
        if m == self.n or promise.adjacency != "replace":
            return plain
        return min(plain, sampled(z, self.n, m, t + 1, delta))

    def _most(self, t: int) -> int:
        """How many updates the busiest client has sent after round ``t``."""
        if t < self.upto:
            self.sent, self.upto = torch.zeros_like(self.sent), 0
        for earlier in range(self.upto, t + 1):
            plan = self.plan(earlier)
            self.sent[plan.ids[plan.reply]] += 1
        self.upto = t + 1
        return int(self.sent.max())


def gaussian(multiplier: float, times: int, delta: float) -> float:
    """Epsilon of ``times`` Gaussian mechanisms, exactly."""
    if not times:
        return 0.0
    return float(_library().get_epsilon_gaussian(multiplier / math.sqrt(times), delta))


def sampled(multiplier: float, n: int, m: int, times: int, delta: float) -> float:
    """A bound on epsilon of ``times`` Gaussian mechanisms, each on m of n clients at random."""
    orders, one = _renyi(multiplier, n, m)
    compute: Callable[..., Any] = _library().rdp.compute_epsilon
    return float(compute(orders, times * one, delta)[0])


@lru_cache(maxsize=8)
def _renyi(multiplier: float, n: int, m: int) -> tuple[Any, Any]:
    """(orders, Rényi divergences) of one round."""
    dp = _library()
    counted = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    counted.compose(dp.SampledWithoutReplacementDpEvent(n, m, dp.GaussianDpEvent(multiplier)))
    return counted.orders, counted.rdp


def _library() -> Any:
    try:
        return import_module("dp_accounting")
    except ImportError:
        raise ConfigError(
            "differential privacy needs the package 'dp-accounting' to count epsilon; "
            "install it with pip install 'unalike[dp]'."
        ) from None
