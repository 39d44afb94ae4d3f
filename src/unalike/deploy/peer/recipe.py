"""What a recipe must be for peers to run it, and the name that all of them give to the run.

That name is the digest of what all must have in common.
"""

from collections.abc import Mapping
from typing import cast

from unalike.deploy.setup.joining import refuse_simulated
from unalike.deploy.wire.messages import digest
from unalike.errors import ConfigError
from unalike.run.configuration.config import Config, chosen
from unalike.run.configuration.topologies import TopologySettings


def refuse(config: Config, addresses: Mapping[str, str]) -> None:
    """Raise one sentence if a configuration needs what peers cannot do."""
    refuse_simulated(config)
    if config.topology.name == "star":
        raise ConfigError(
            "topology 'star' has a coordinator: use 'unalike serve', or choose another topology, "
            "such as ring."
        )
    if config.topology.settings.get("cloud"):
        raise ConfigError(
            "topology.cloud adds a central server, which peers do not need; leave it out: the "
            "numbers are the same."
        )
    if config.deploy.secure_aggregation:
        raise ConfigError(
            "deploy.secure_aggregation hides updates from a coordinator, and peers have none; set "
            "it to false."
        )
    if config.clock.kind != "none":
        raise ConfigError(
            "the clock is simulated, and peers run in real time; set clock.kind = 'none'."
        )


def run_of(config: Config, names: tuple[str, ...]) -> str:
    """The name of a run: the same at all peers if they have the same recipe and list."""
    told = config.resolved()
    common = {k: v for k, v in told.items() if k not in ("data", "partition", "engine")}
    common["topology"] = {k: v for k, v in common["topology"].items() if k != "path"}
    links = cast(TopologySettings, chosen("topology", config.topology)).build().links(0, len(names))
    graph = [] if links is None else links.tolist()  # a file that it is read from may have changed
    return digest({"peers": sorted(names), "recipe": common, "graph": graph})
