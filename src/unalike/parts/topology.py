"""K servers, a home server for each client, and who hears whom after each round.

Star: K = 1. Semi-decentralized: K edge servers, or one whose role goes round among the clients.
Decentralized: K = N, each client its own server; its neighbours are a ring, a random graph or all.
Every server first uses its own clients (adapt), then hears its neighbours (combine); the entries
of the combination come from the mixing rule, applied to each neighbourhood.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from unalike import rng
from unalike.errors import ConfigError
from unalike.traits import Trait

_ATTEMPTS = 100  # graphs drawn in search of a connected one


class Topology(Protocol):
    """Who talks to whom."""

    @property
    def traits(self) -> frozenset[Trait]:
        """What a method may be unable to live with."""
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

    def host(self, t: int, n: int) -> int | None:
        """Nobody."""
        return None


@dataclass(frozen=True)
class Star(Unhosted):
    """One server for all."""

    local: ClassVar[bool] = False

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


@dataclass(frozen=True)
class Decentralized(Unhosted):
    """No server: every client is its own."""

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MANY_SERVERS, Trait.NO_SERVER})
    local: ClassVar[bool] = True

    def home(self, n: int) -> Tensor:
        """Everybody at home."""
        return torch.arange(n)


@dataclass(frozen=True)
class Ring(Decentralized):
    """No server: every client hears itself and ``neighbours`` clients on either side."""

    neighbours: int = 1

    def links(self, t: int, n: int) -> Tensor | None:
        """Itself and those beside it."""
        if n < 3:
            raise ConfigError(f"a ring needs at least 3 clients, but there are {n}.")
        beside = torch.arange(-self.neighbours, self.neighbours + 1)
        near = beside[: min(n, len(beside))]  # a small ring is soon complete
        return _edges((torch.arange(n)[:, None] + near) % n)


@dataclass(frozen=True)
class Complete(Decentralized):
    """No server: every client hears everybody."""

    def links(self, t: int, n: int) -> Tensor | None:
        """All of them."""
        return _edges(torch.arange(n).expand(n, n))


@dataclass(frozen=True)
class Random(Decentralized):
    """No server: neighbours in a graph that is drawn once and is connected.

    ``erdos_renyi`` has every edge with the same probability (Erdos & Renyi 1959), ``regular`` gives
    every client the same number of neighbours.
    """

    kind: Literal["erdos_renyi", "regular"] = "erdos_renyi"
    probability: float = 0.3
    degree: int = 3
    seed: int = 0

    def links(self, t: int, n: int) -> Tensor | None:
        """The same in every round."""
        density = self.probability if self.kind == "erdos_renyi" else self.degree
        return _connected(self.kind, density, self.seed, n).clone()


@lru_cache(maxsize=8)
def _connected(kind: str, density: float, seed: int, n: int) -> Tensor:
    """The first connected graph of those that the seed draws, with everybody hearing himself."""
    import networkx as nx

    if kind == "regular" and (density >= n or int(density) * n % 2):
        raise ConfigError(
            f"there is no graph in which each of {n} clients has {density:g} neighbours; "
            "topology.degree must be below the number of clients, and one of the two even."
        )
    for attempt in range(_ATTEMPTS):
        lot = int(rng.fold_in(rng.key(seed), attempt)) % 2**32
        graph = (
            nx.gnp_random_graph(n, density, seed=lot)
            if kind == "erdos_renyi"
            else nx.random_regular_graph(int(density), n, seed=lot)
        )
        if nx.is_connected(graph):
            loops = [(j, j) for j in range(n)]
            both = [(i, j) for j, i in graph.edges]
            return torch.tensor(sorted([*graph.edges, *both, *loops]))
    what = "probability" if kind == "erdos_renyi" else "degree"
    raise ConfigError(
        f"no graph of {n} clients with {what} = {density:g} was connected in {_ATTEMPTS} draws; "
        f"raise topology.{what}."
    )


@dataclass(frozen=True)
class Clusters(Unhosted):
    """Semi-decentralized: ``servers`` edge servers; every ``period`` rounds each hears all."""

    servers: int
    period: int = 1
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MANY_SERVERS})
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
        return _edges(torch.arange(self.servers).expand(self.servers, self.servers))
