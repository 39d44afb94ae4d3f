"""A simulated clock: how long a client's round takes, from its device and its network.

seconds = latency + down / b_down + examples / speed + latency + up / b_up,  times e^(jitter xi)

Every client draws its speed and its two bandwidths once, from distributions that are set; xi is
drawn again in every round. Nothing of this depends on what is trained, so that who is late is known
before anybody trains.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.func import vmap

from unalike import rng
from unalike.rng import Key

Kind = Literal["lognormal", "uniform", "constant"]


@dataclass(frozen=True)
class Rate:
    """How fast clients are: ``median`` e^(spread xi), or even from (1 - spread) to (1 + spread)."""

    median: float
    spread: float = 0.0
    kind: Kind = "lognormal"

    def draw(self, keys: Key) -> Tensor:
        """[n] in double precision, one for each key."""
        if self.kind == "constant" or not self.spread:
            return torch.full(keys.shape, self.median, dtype=torch.float64)
        if self.kind == "uniform":
            u = vmap(lambda k: rng.uniform(k, 1))(keys)[:, 0].double()
            return self.median * (1 + self.spread * (2 * u - 1))
        z = vmap(lambda k: rng.normal(k, 1))(keys)[:, 0].double()
        return self.median * torch.exp(self.spread * z)


@dataclass(frozen=True)
class Clock:
    """What devices and networks are like, and how long a server waits."""

    speed: Rate = Rate(1000.0)  # examples a second
    down: Rate = Rate(1e6)  # bytes a second
    up: Rate = Rate(1e6)
    latency: float = 0.0  # seconds that a message takes at least
    jitter: float = 0.0
    deadline: float | None = None  # seconds after which a round ends

    def seconds(
        self, key: Key, t: int, ids: Tensor, examples: Tensor, down: float, up: float
    ) -> Tensor:
        """[n] how long each client's round takes, as double; ``t`` of -1: without jitter."""
        own = rng.fold_in(key, ids)
        speed, to, back = (
            rate.draw(rng.fold_in(own, i))
            for i, rate in enumerate((self.speed, self.down, self.up))
        )
        total = 2 * self.latency + down / to + examples.double() / speed + up / back
        if not self.jitter or t < 0:
            return total
        now = rng.client(rng.fold_in(key, -1), t, ids)
        return total * torch.exp(self.jitter * vmap(lambda k: rng.normal(k, 1))(now)[:, 0].double())


CUSTOMARY = Clock(Rate(1000.0, 0.5), Rate(1e6, 0.5), Rate(2.5e5, 0.5), 0.05)
