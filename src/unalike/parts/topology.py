"""K servers, a home server for each client, and who hears whom after each round.

Star: K = 1. Semi-decentralized: K edge servers, or one server whose role rotates among the clients.
Decentralized: K = N, each client its own server; its neighbours are those of a graph, which may
change in every round. Graphs that follow a formula are here; those that are drawn or read are in
``parts/graphs.py``. Every server first uses its own clients (adapt), then hears its neighbours
(combine); the entries of the combination come from the mixing rule, applied to each neighbourhood,
or are Metropolis weights.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from unalike import rng
from unalike.errors import ConfigError, counted
from unalike.traits import Trait

Weights = Literal["rule", "metropolis"]


class Topology(Protocol):
    """Who talks to whom."""

    @property
    def traits(self) -> frozenset[Trait]:
        """What a method may be unable to live with."""
        ...

    @property
    def refuses(self) -> Mapping[Trait, str]:
        """A trait of a method -> why it cannot run here."""
        ...

    @property
    def weights(self) -> Weights:
        """Whether the mixing rule says what a neighbour counts."""
        ...

    @property
    def cloud(self) -> bool:
        """Whether servers exchange models through one more server."""
        ...

    @property
    def local(self) -> bool:
        """Whether a client is its own server, so that reaching it costs nothing."""
        ...

    def home(self, n: int) -> Tensor:
        """[n] the server of each client."""
        ...

    def links(self, t: int, n: int) -> Tensor | None:
        """[E, 2] edges (j, i): server j hears server i after round t; None if nobody hears.

        Receivers are in ascending order, and everybody hears himself.
        """
        ...

    def host(self, t: int, n: int) -> int | None:
        """The client that is the server in round t; None if no client is."""
        ...


@dataclass(frozen=True)
class Unhosted:
    """No client acts as the server of others."""

    traits: ClassVar[frozenset[Trait]] = frozenset()

    @property
    def refuses(self) -> Mapping[Trait, str]:
        """Nothing."""
        return MappingProxyType({})

    def host(self, t: int, n: int) -> int | None:
        """Nobody."""
        return None


@dataclass(frozen=True)
class Star(Unhosted):
    """One server for all."""

    local: ClassVar[bool] = False
    cloud: ClassVar[bool] = False
    weights: ClassVar[Weights] = "rule"

    def home(self, n: int) -> Tensor:
        """Everybody at server 0."""
        return torch.zeros(n, dtype=torch.long)

    def links(self, t: int, n: int) -> Tensor | None:
        """Nobody to hear."""
        return None


@dataclass(frozen=True)
class Rotating(Star):
    """Semi-decentralized: clients are the server in turn and hand its state on."""

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MOVING_SERVER})

    def host(self, t: int, n: int) -> int | None:
        """In the order of their numbers."""
        return t % n


def _edges(hears: Tensor) -> Tensor:
    """[E, 2] from one row of senders for each receiver."""
    receiver = torch.arange(len(hears))[:, None].expand_as(hears)
    return torch.stack([receiver, hears.sort(1).values], 2).reshape(-1, 2)


@dataclass(frozen=True, kw_only=True)
class Decentralized(Unhosted):
    """No server: every client is its own, and hears its neighbours in a graph.

    A lost link is lost both ways and for one round. ``seed`` is of whatever the graph draws: the
    seed of the run leaves it alone.
    """

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MANY_SERVERS, Trait.NO_SERVER})
    local: ClassVar[bool] = True
    cloud: ClassVar[bool] = False
    weights: Weights = "rule"
    link_loss: float = 0.0
    seed: int = 0

    @property
    def stays(self) -> bool:
        """Whether the graph is the same in every round, apart from links that are lost."""
        return True

    @property
    def refuses(self) -> Mapping[Trait, str]:
        """Rules for weights that would not be asked."""
        if self.weights == "rule":
            return MappingProxyType({})
        why = "topology.weights = 'metropolis' replaces its weights"
        return dict.fromkeys((Trait.SETS_WEIGHTS, Trait.SCALES_WEIGHTS), why)

    def home(self, n: int) -> Tensor:
        """Everybody at home."""
        return torch.arange(n)

    @abstractmethod
    def graph(self, t: int, n: int) -> Tensor:
        """[E, 2] the links of round ``t`` if none is lost."""

    def links(self, t: int, n: int) -> Tensor | None:
        """The graph's, less those that are lost."""
        edges = self.graph(t, n)
        if not self.link_loss:
            return edges
        low, high = edges.amin(1), edges.amax(1)
        key = rng.fold_in(rng.fold_in(rng.key(self.seed), _LOST), t)
        keys = rng.fold_in(rng.fold_in(key, low), high)
        chance = torch.func.vmap(lambda k: rng.uniform(k, 1))(keys)[:, 0]
        return edges[(chance >= self.link_loss) | (low == high)]


_LOST = -1  # folded into the seed for the links that are lost; graphs fold in 0, 1, ...


@dataclass(frozen=True)
class Ring(Decentralized):
    """No server: every client hears itself and ``neighbours`` clients on either side."""

    neighbours: int = 1

    def graph(self, t: int, n: int) -> Tensor:
        """Itself and those beside it."""
        if n < 3:
            raise ConfigError(f"a ring needs at least 3 clients, not {n}; use topology 'complete'.")
        beside = torch.arange(-self.neighbours, self.neighbours + 1)
        near = beside[: min(n, len(beside))]  # a small ring is soon complete
        return _edges((torch.arange(n)[:, None] + near) % n)


@dataclass(frozen=True)
class Torus(Decentralized):
    """No server: clients on a grid whose edges are joined hear the four around them."""

    rows: int = 0  # 0: as near to a square as the number of clients allows

    def graph(self, t: int, n: int) -> Tensor:
        """Itself, left and right, above and below."""
        sizes = [r for r in range(3, n // 3 + 1) if n % r == 0]
        rows = self.rows or max((r for r in sizes if r * r <= n), default=0)
        if rows not in sizes:
            said = f"topology.rows = {rows}" if self.rows else "a torus"
            other = "ring" if n > 2 else "complete"
            ways = (
                f"rows may be {', '.join(map(str, sizes))}" if sizes else f"use topology '{other}'"
            )
            raise ConfigError(
                f"{said} does not fit {counted(n, 'client')}, which must fill at least 3 rows and "
                f"3 columns; {ways}."
            )
        place = torch.arange(n).reshape(rows, -1)
        around = [place.roll(s, d).flatten() for s in (1, -1) for d in (0, 1)]
        return _edges(torch.stack([place.flatten(), *around], 1))


@dataclass(frozen=True)
class Exponential(Decentralized):
    """No server: every client hears those 1, 2, 4, 8, ... places on (Assran et al. 2019).

    With ``one_peer`` one of them in each round, in turn (Ying et al. 2021).
    """

    one_peer: bool = False

    @property
    def stays(self) -> bool:
        """Unless neighbours take turns."""
        return not self.one_peer

    def graph(self, t: int, n: int) -> Tensor:
        """Itself and those at the powers of two, or at one of them."""
        steps = [2**k for k in range(max(1, (n - 1).bit_length())) if 2**k < n]
        if self.one_peer and steps:
            steps = [steps[t % len(steps)]]
        return _edges((torch.arange(n)[:, None] + torch.tensor([0, *steps])) % n)


@dataclass(frozen=True)
class Complete(Decentralized):
    """No server: every client hears everybody."""

    def graph(self, t: int, n: int) -> Tensor:
        """All of them."""
        return _edges(torch.arange(n).expand(n, n))


@dataclass(frozen=True)
class Clusters(Unhosted):
    """Semi-decentralized: ``servers`` edge servers; every ``period`` rounds each hears all.

    Directly, or through a ``cloud`` that takes the mean and sends it back, which is hierarchical
    FedAvg (Liu et al. 2020): the same numbers over fewer links.
    """

    servers: int
    period: int = 1
    cloud: bool = False
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MANY_SERVERS, Trait.EDGE_SERVERS})
    local: ClassVar[bool] = False
    weights: ClassVar[Weights] = "rule"

    def home(self, n: int) -> Tensor:
        """Clients assigned to servers in turn."""
        if self.servers > n:
            raise ConfigError(
                f"topology.servers = {self.servers} is more than the number of clients, {n}; "
                f"choose at most {n}."
            )
        return torch.arange(n) % self.servers

    def links(self, t: int, n: int) -> Tensor | None:
        """All hear all in every period-th round."""
        if (t + 1) % self.period:
            return None
        return _edges(torch.arange(self.servers).expand(self.servers, self.servers))
