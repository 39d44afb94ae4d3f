"""The table of topologies: name -> settings class."""

from abc import abstractmethod
from typing import Any

from pydantic import Field

from unalike.errors import ConfigError
from unalike.parts.graphs import Given, Gossip, Kind, Random
from unalike.parts.topology import (
    Clusters,
    Complete,
    Exponential,
    Ring,
    Rotating,
    Star,
    Topology,
    Torus,
    Weights,
)
from unalike.run.configuration.graph_file import listed_graph, read_graph
from unalike.settings import Settings, setting


class TopologySettings(Settings):
    """Who talks to whom."""

    @abstractmethod
    def build(self) -> Topology:
        """The topology."""


class StarSettings(TopologySettings):
    """One server for all clients."""

    def build(self) -> Topology:
        """The topology."""
        return Star()


class GraphSettings(TopologySettings):
    """No server: every client averages with its neighbours in a graph."""

    weights: Weights = Field(
        default="rule",
        description="how much a neighbour counts: by the method's rule, or by Metropolis "
        "weights, which keep the plain mean of all models",
    )
    link_loss: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="probability that a link is lost for a round, in both directions",
    )
    seed: int = Field(
        default=0,
        ge=0,
        description="seed of the graph and of lost links, independent of the run's seed",
    )

    def common(self) -> dict[str, Any]:
        """What all graphs have."""
        return {"weights": self.weights, "link_loss": self.link_loss, "seed": self.seed}


class RingSettings(GraphSettings):
    """No server: every client averages with its neighbours on a ring."""

    neighbours: int = Field(default=1, ge=1, description="neighbours on either side")

    def build(self) -> Topology:
        """The topology."""
        return Ring(self.neighbours, **self.common())


class TorusSettings(GraphSettings):
    """No server: every client averages with the four around it on a grid that wraps around."""

    rows: int = Field(
        default=0, ge=0, description="rows of the grid; 0: as close to a square as possible"
    )

    def build(self) -> Topology:
        """The topology."""
        return Torus(self.rows, **self.common())


class ExponentialSettings(GraphSettings):
    """No server: every client averages with those 1, 2, 4, 8, ... places further on."""

    one_peer: bool = Field(default=False, description="hear only one of them per round, in turn")

    def build(self) -> Topology:
        """The topology."""
        return Exponential(self.one_peer, **self.common())


class CompleteSettings(GraphSettings):
    """No server: every client averages with all others."""

    def build(self) -> Topology:
        """The topology."""
        return Complete(**self.common())


class RandomSettings(GraphSettings):
    """No server: every client averages with its neighbours in a random graph."""

    kind: Kind = Field(
        default="erdos_renyi",
        description="every edge equally likely, equally many neighbours, or a ring with shortcuts",
    )
    probability: float = setting(
        0.3, "probability of an edge, if erdos_renyi", gt=0, le=1, only={"kind": "erdos_renyi"}
    )
    degree: int = setting(
        4,
        "neighbours of every client, if regular; on the ring, if small_world (an even number)",
        ge=1,
        only={"kind": ("regular", "small_world")},
    )
    rewire: float = setting(
        0.1,
        "probability that an edge of the ring leads elsewhere, if small_world",
        ge=0,
        le=1,
        only={"kind": "small_world"},
    )
    redraw: int = Field(
        default=0,
        ge=0,
        description="rounds until another graph is drawn; 0: never, and the graph is connected",
    )

    def build(self) -> Topology:
        """The topology."""
        return Random(
            self.kind,
            self.probability,
            self.degree,
            rewire=self.rewire,
            redraw=self.redraw,
            **self.common(),
        )


class GossipSettings(GraphSettings):
    """No server: clients average in random pairs, new ones in every round."""

    def build(self) -> Topology:
        """The topology."""
        return Gossip(**self.common())


class GraphFileSettings(GraphSettings):
    """No server: every client averages with its neighbours in your own graph."""

    path: str = Field(
        default="",
        description="a file in GML (.gml) or GraphML (.graphml), or with two client numbers on "
        "each line",
    )
    edges: list[list[int]] = Field(
        default=[], description="pairs of client numbers instead of a file"
    )

    def build(self) -> Topology:
        """The topology."""
        if bool(self.path) == bool(self.edges):
            raise ConfigError(
                "topology 'graph' needs a graph: set topology.path to a file, or topology.edges to "
                "pairs of client numbers, and not both."
            )
        if self.edges:
            pairs, called = listed_graph(self.edges), "the graph in topology.edges"
        else:
            pairs, called = read_graph(self.path), f"the graph in '{self.path}'"
        return Given(pairs, called, **self.common())


class RotatingSettings(TopologySettings):
    """Semi-decentralized: clients take turns as the server."""

    def build(self) -> Topology:
        """The topology."""
        return Rotating()


class ClustersSettings(TopologySettings):
    """Semi-decentralized: edge servers exchange models every few rounds."""

    servers: int = Field(default=2, ge=1, description="number of edge servers")
    period: int = Field(default=1, ge=1, description="rounds between two exchanges")
    cloud: bool = Field(
        default=False, description="exchange through one more server, a star of stars; same numbers"
    )

    def build(self) -> Topology:
        """The topology."""
        return Clusters(self.servers, self.period, self.cloud)


TOPOLOGIES: dict[str, type[TopologySettings]] = {
    "star": StarSettings,
    "ring": RingSettings,
    "torus": TorusSettings,
    "exponential": ExponentialSettings,
    "complete": CompleteSettings,
    "random": RandomSettings,
    "gossip": GossipSettings,
    "graph": GraphFileSettings,
    "clusters": ClustersSettings,
    "rotating": RotatingSettings,
}
