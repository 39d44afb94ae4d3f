"""The table of topologies: name -> settings class."""

from abc import abstractmethod
from typing import Literal

from pydantic import Field

from unalike.parts.topology import (
    Clusters,
    Complete,
    Random,
    Ring,
    Rotating,
    Star,
    Topology,
)
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


class RingSettings(TopologySettings):
    """No server: every client averages with its neighbours on a ring."""

    neighbours: int = Field(default=1, ge=1, description="heard on either side")

    def build(self) -> Topology:
        """The topology."""
        return Ring(self.neighbours)


class CompleteSettings(TopologySettings):
    """No server: every client averages with all others."""

    def build(self) -> Topology:
        """The topology."""
        return Complete()


class RandomSettings(TopologySettings):
    """No server: every client averages with its neighbours in a random connected graph."""

    kind: Literal["erdos_renyi", "regular"] = Field(
        default="erdos_renyi", description="every edge equally likely, or equally many neighbours"
    )
    probability: float = setting(
        0.3, "chance of an edge, if erdos_renyi", gt=0, le=1, only={"kind": "erdos_renyi"}
    )
    degree: int = setting(
        3, "neighbours of every client, if regular", ge=1, only={"kind": "regular"}
    )
    seed: int = Field(default=0, ge=0, description="of the graph; the run's seed leaves it alone")

    def build(self) -> Topology:
        """The topology."""
        return Random(self.kind, self.probability, self.degree, self.seed)


class RotatingSettings(TopologySettings):
    """Semi-decentralized: clients take turns as the server of all."""

    def build(self) -> Topology:
        """The topology."""
        return Rotating()


class ClustersSettings(TopologySettings):
    """Semi-decentralized: edge servers that exchange models every few rounds."""

    servers: int = Field(default=2, ge=1, description="number of edge servers")
    period: int = Field(default=1, ge=1, description="rounds between two exchanges")

    def build(self) -> Topology:
        """The topology."""
        return Clusters(self.servers, self.period)


TOPOLOGIES: dict[str, type[TopologySettings]] = {
    "star": StarSettings,
    "ring": RingSettings,
    "complete": CompleteSettings,
    "random": RandomSettings,
    "clusters": ClustersSettings,
    "rotating": RotatingSettings,
}
