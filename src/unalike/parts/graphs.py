"""Graphs that are drawn, once or repeatedly, and graphs that are given edge by edge."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from unalike import rng
from unalike.errors import ConfigError, counted
from unalike.parts.topology import Decentralized

Kind = Literal["erdos_renyi", "regular", "small_world"]
_ATTEMPTS = 100  # graphs drawn in search of a connected one


@dataclass(frozen=True)
class Random(Decentralized):
    """No server: neighbours in a random graph.

    ``erdos_renyi`` has every edge with the same probability (Erdos & Renyi 1959), ``regular`` gives
    every client the same number of neighbours, ``small_world`` is a ring of that many neighbours of
    whose edges each leads somewhere else with the probability ``rewire`` (Watts & Strogatz 1998).
    A graph that stays is connected; one that is drawn again every ``redraw`` rounds need not be.
    """

    kind: Kind = "erdos_renyi"
    probability: float = 0.3
    degree: int = 4
    rewire: float = 0.1
    redraw: int = 0

    @property
    def stays(self) -> bool:
        """Unless it is drawn again."""
        return not self.redraw

    def graph(self, t: int, n: int) -> Tensor:
        """The same in every round, or from draw to draw."""
        drawn = t // self.redraw if self.redraw else -1
        chance = self.rewire if self.kind == "small_world" else self.probability
        return _drawn(self.kind, chance, self.degree, self.seed, n, drawn).clone()


@lru_cache(maxsize=8)
def _drawn(kind: Kind, chance: float, degree: int, seed: int, n: int, number: int) -> Tensor:
    """The graph of that number, or the first connected one if it is -1, with all loops."""
    import networkx as nx

    if kind != "erdos_renyi" and (why := _misfit(kind, degree, n)):
        raise ConfigError(
            f"there is no graph in which each of {counted(n, 'client')} has "
            f"{counted(degree, 'neighbour')}; {why}."
        )
    for attempt in range(_ATTEMPTS) if number < 0 else (number,):
        lot = int(rng.fold_in(rng.key(seed), attempt)) % 2**32
        if kind == "erdos_renyi":
            graph = nx.gnp_random_graph(n, chance, seed=lot)
        elif kind == "regular":
            graph = nx.random_regular_graph(degree, n, seed=lot)
        else:
            graph = nx.watts_strogatz_graph(n, degree, chance, seed=lot)
        if number >= 0 or nx.is_connected(graph):
            return both_ways(list(graph.edges), n)
    what = f"probability = {chance:g}" if kind == "erdos_renyi" else f"degree = {degree}"
    raise ConfigError(
        f"no graph of {n} clients with {what} was connected in {_ATTEMPTS} draws; "
        f"raise topology.{what.split()[0]}."
    )


def _misfit(kind: Kind, degree: int, n: int) -> str:
    """Why clients cannot all have so many neighbours; empty if they can."""
    if degree >= n:
        return "topology.degree must be below the number of clients"
    if kind == "small_world":
        return "topology.degree must be even" if degree % 2 else ""
    return "topology.degree or the number of clients must be even" if degree * n % 2 else ""


def both_ways(pairs: list[tuple[int, int]], n: int) -> Tensor:
    """[E, 2] the edges of an undirected graph in order, with everybody hearing himself."""
    loops = [(j, j) for j in range(n)]
    return torch.tensor(sorted({*pairs, *((i, j) for j, i in pairs), *loops}))


@dataclass(frozen=True)
class Gossip(Decentralized):
    """No server: in every round clients meet in random pairs (Boyd et al. 2006)."""

    stays: ClassVar[bool] = False

    def graph(self, t: int, n: int) -> Tensor:
        """Everybody and the one it meets; of an odd number one meets nobody."""
        order = rng.permutation(rng.fold_in(rng.key(self.seed), t), n)[: n // 2 * 2]
        return both_ways([(int(a), int(b)) for a, b in order.reshape(-1, 2).tolist()], n)


@dataclass(frozen=True)
class Given(Decentralized):
    """No server: neighbours in the user's own graph."""

    pairs: tuple[tuple[int, int], ...] = ()
    name: str = "the graph"

    def graph(self, t: int, n: int) -> Tensor:
        """As it is given."""
        worst = max((max(pair) for pair in self.pairs), default=0)
        if worst != n - 1:
            what = f"has a node {worst}" if worst >= n else f"has no node {n - 1}"
            raise ConfigError(
                f"{self.name} {what}, but clients are numbered 0 to {n - 1}; "
                "change the graph or the number of clients."
            )
        return both_ways(list(self.pairs), n)
