"""The table of topologies: name -> settings class."""

from abc import abstractmethod

from pydantic import Field

from unalike.parts.topology import Clusters, Ring, Star, Topology
from unalike.settings import Settings


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
    "clusters": ClustersSettings,
}
