"""Groups of clients that a method or a topology makes, and how much they differ."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from unalike import rng
from unalike.federation.data import Federation
from unalike.federation.skew import group_emd
from unalike.parts.participation.schedule import Participation, Phased, Plan
from unalike.parts.topology import Topology
from unalike.run.configuration.config import Config, chosen
from unalike.run.configuration.topologies import TopologySettings
from unalike.run.experiment.live import Experiment


def groups(made: Experiment) -> dict[str, dict[str, Any]]:
    """Phases, clusters and neighbourhoods: the EMD of each against the whole, and between them."""
    loop = made.loop
    if loop.n != made.federation.n_clients:  # a pooled run has one client
        return {}
    plan = loop.recipe.schedule.plan(loop.span.start, loop.span, loop.n, loop.cohorts)
    servers = _servers(loop.recipe.topology, loop.span.start, loop.n)
    return _apart(made.federation.counts, {**_phases(plan), **servers})


def planned(config: Config, data: Federation) -> dict[str, dict[str, Any]]:
    """The same of a configuration, without a model: what its method and its topology will group."""
    n, span = data.n_clients, range(config.rounds)
    topology = cast(TopologySettings, chosen("topology", config.topology)).build()
    found = _servers(topology, 0, n)
    asked = config.participation
    for named in [config.method, *config.plus]:
        if phases := named.settings.get("phases"):
            schedule = Phased(phases, Participation(asked.fraction, asked.number))
            found |= _phases(schedule.plan(0, span, n, rng.stream(config.seed, "cohort")))
    return _apart(data.counts, found)


def _apart(counts: np.ndarray, found: Mapping[str, list[list[int]]]) -> dict[str, dict[str, Any]]:
    """How far the labels of groups are from all, and from one another."""
    each = {name: (members, group_emd(counts, members)) for name, members in found.items()}
    return {
        name: {
            "groups": len(members),
            "emd": emd.mean,
            "emd_between": emd.mean_between,
            "each": [round(float(v), 6) for v in emd.whole],
        }
        for name, (members, emd) in each.items()
    }


def _phases(plan: Plan) -> dict[str, list[list[int]]]:
    """The clients of each position in the first round's queue."""
    roles = plan.role.unique().tolist()
    if len(roles) < 2:
        return {}
    return {"phases": [plan.ids[plan.role == r].tolist() for r in roles]}


def _servers(topology: Topology, t: int, n: int) -> dict[str, list[list[int]]]:
    """The clients of each server; where each client is one, those that it hears."""
    home = topology.home(n)
    servers = int(home.max()) + 1
    if servers == 1:
        return {}
    if not topology.local:
        return {"clusters": [(home == j).nonzero()[:, 0].tolist() for j in range(servers)]}
    edges = topology.links(t, n)
    if edges is None:
        return {}
    _, degree = edges[:, 0].unique_consecutive(return_counts=True)
    return {"neighbourhoods": [part.tolist() for part in edges[:, 1].split(degree.tolist())]}
