"""A simulated clock: how long a client's round takes, from its device and its network.

seconds = latency + down / b_down + examples / speed + latency + up / b_up,  times e^(jitter xi)

A message between two clients with their own lines takes, with o_i messages leaving i and i_j
arriving at j at the same time (Marfoq et al. 2020, for a network between them without limits),

seconds = latency + bytes / min(b_up_i / o_i, b_down_j / i_j),  times e^(jitter xi_i)

Every client draws its speed and its two bandwidths once, from configured distributions; xi is drawn
again in every round. Nothing here depends on what is trained, so it is known who is late before
anybody trains.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

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


class Devices(NamedTuple):
    """What some clients have, one number each."""

    speed: Tensor  # examples a second
    down: Tensor  # bytes a second
    up: Tensor


@dataclass(frozen=True)
class Clock:
    """What devices and networks are like, and how long a server waits."""

    speed: Rate = Rate(1000.0)  # examples a second
    down: Rate = Rate(1e6)  # bytes a second
    up: Rate = Rate(1e6)
    latency: float = 0.0  # seconds that a message takes at least
    jitter: float = 0.0
    deadline: float | None = None  # seconds after which a round ends
    backbone: float = 1.25e7  # bytes a second of an edge server's line to other servers

    def devices(self, key: Key, ids: Tensor) -> Devices:
        """Those of some clients."""
        own = rng.fold_in(key, ids)
        rates = enumerate((self.speed, self.down, self.up))
        return Devices(*(rate.draw(rng.fold_in(own, i)) for i, rate in rates))

    def shaken(self, key: Key, t: int, ids: Tensor) -> Tensor:
        """[n] what times some clients' seconds in round ``t``, as double; 1 if ``t`` is -1."""
        if not self.jitter or t < 0:
            return torch.ones(len(ids), dtype=torch.float64)
        now = rng.client(rng.fold_in(key, -1), t, ids)
        return torch.exp(self.jitter * vmap(lambda k: rng.normal(k, 1))(now)[:, 0].double())

    def seconds(
        self,
        key: Key,
        t: int,
        ids: Tensor,
        examples: Tensor,
        down: float,
        up: float,
        answers: Tensor | None = None,
    ) -> Tensor:
        """[n] how long each client's round takes, as double; ``t`` of -1: without jitter.

        ``answers`` are those that send anything back, everybody if it is not said. Where a message
        has no bytes there is none.
        """
        have = self.devices(key, ids)
        back = torch.ones_like(have.up) if answers is None else answers.double()
        back = back if up else torch.zeros_like(back)
        messages = back + bool(down)
        total = messages * self.latency + down / have.down + examples.double() / have.speed
        return (total + back * up / have.up) * self.shaken(key, t, ids)


CUSTOMARY = Clock(Rate(1000.0, 0.5), Rate(1e6, 0.5), Rate(2.5e5, 0.5), 0.05)
