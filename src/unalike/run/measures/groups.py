"""Groups of clients that a method or a topology makes, and how much they differ."""

from typing import Any

from unalike.engine.loop import Loop
from unalike.federation.skew import group_emd
from unalike.run.experiment.build import Experiment


def groups(made: Experiment) -> dict[str, dict[str, Any]]:
    """Phases, clusters and neighbourhoods: the EMD of each against the whole, and between them."""
    if made.loop.n != made.federation.n_clients:  # a pooled run has one client
        return {}
    found = {}
    for name, members in {**_phases(made.loop), **_servers(made.loop)}.items():
        emd = group_emd(made.federation.counts, members)
        found[name] = {
            "groups": len(members),
            "emd": emd.mean,
            "emd_between": emd.mean_between,
            "each": [round(float(v), 6) for v in emd.whole],
        }
    return found


def _phases(loop: Loop) -> dict[str, list[list[int]]]:
    """The clients of each position in the first round's queue."""
    plan = loop.recipe.schedule.plan(loop.span.start, loop.span, loop.n, loop.cohorts)
    roles = plan.role.unique().tolist()
    if len(roles) < 2:
        return {}
    return {"phases": [plan.ids[plan.role == r].tolist() for r in roles]}


def _servers(loop: Loop) -> dict[str, list[list[int]]]:
    """The clients of each server; where each client is one, those that it hears."""
    servers = int(loop.home.max()) + 1
    if servers == 1:
        return {}
    if not loop.recipe.topology.local:
        return {"clusters": [(loop.home == j).nonzero()[:, 0].tolist() for j in range(servers)]}
    edges = loop.recipe.topology.links(loop.span.start, loop.n)
    if edges is None:
        return {}
    _, degree = edges[:, 0].unique_consecutive(return_counts=True)
    return {"neighbourhoods": [part.tolist() for part in edges[:, 1].split(degree.tolist())]}
