"""K servers, a home server for each client, and who hears whom after each round.

Star: K = 1. Semi-decentralized: K edge servers. Decentralized: K = N, each client its own server.
Every server first uses its own clients (adapt), then hears its neighbours (combine); the entries
of the combination come from the mixing rule, applied to each neighbourhood.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from unalike.errors import ConfigError


class Topology(Protocol):
    """Who talks to whom."""

    @property
    def local(self) -> bool:
        """Whether a client is its own server, so that reaching it costs nothing."""
        ...

    def home(self, n: int) -> Tensor:
        """[n] the server of each client."""
        ...

    def links(self, t: int, n: int) -> Tensor | None:
        """[K, K] bool, row j: whom server j hears after round t; None if nobody."""
        ...


@dataclass(frozen=True)
class Star:
    """One server for all."""

    local: ClassVar[bool] = False

    def home(self, n: int) -> Tensor:
        """Everybody at server 0."""
        return torch.zeros(n, dtype=torch.long)

    def links(self, t: int, n: int) -> Tensor | None:
        """Nobody to hear."""
        return None


@dataclass(frozen=True)
class Ring:
    """No server: every client hears itself and ``neighbours`` clients on either side."""

    neighbours: int = 1
    local: ClassVar[bool] = True

    def home(self, n: int) -> Tensor:
        """Everybody at home."""
        return torch.arange(n)

    def links(self, t: int, n: int) -> Tensor | None:
        """Itself and those beside it."""
        if n < 3:
            raise ConfigError(f"a ring needs at least 3 clients, there are {n}.")
        heard = torch.eye(n, dtype=torch.bool)
        for _ in range(self.neighbours):
            heard = heard | heard.roll(1, 0) | heard.roll(-1, 0)
        return heard


@dataclass(frozen=True)
class Clusters:
    """Semi-decentralized: ``servers`` edge servers; every ``period`` rounds each hears all."""

    servers: int
    period: int = 1
    local: ClassVar[bool] = False

    def home(self, n: int) -> Tensor:
        """Clients dealt to servers in turn."""
        if self.servers > n:
            raise ConfigError(
                f"topology.servers is {self.servers} but there are only {n} clients; "
                f"choose at most {n}."
            )
        return torch.arange(n) % self.servers

    def links(self, t: int, n: int) -> Tensor | None:
        """All hear all in every period-th round."""
        if (t + 1) % self.period:
            return None
        return torch.ones(self.servers, self.servers, dtype=torch.bool)
