"""One server's own step: its clients' weights, filters on their uploads, the method's server half.

The same wherever the server is: one of many in a simulation, or at a peer of a real network.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.cohort import Cohort
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Weighed, checked
from unalike.recipe import Recipe
from unalike.tree import Tree
from unalike.uploads import Stacked, Uploads

# Statistics of the uploads that a server finds out itself: no client reports them.
MEASURED: dict[str, Callable[[Tree], Tensor]] = {"gram": tree.gram, "sqnorm": tree.sqnorms}


class Adapted(NamedTuple):
    """The result of a server's own clients."""

    server: Any
    memory: Any  # of the mixing rule
    weights: Tensor  # [n] what each client counted
    note: str
    logged: Mapping[str, Any]


def adapt(recipe: Recipe, server: Any, memory: Any, ups: Uploads, cohort: Cohort) -> Adapted:
    """The server after the answers of its own clients in a round."""
    for name in recipe.needs & MEASURED.keys():
        cohort.stats[name] = MEASURED[name](ups.stack())
    if unknown := sorted(recipe.needs - cohort.stats.keys()):
        raise ConfigError(
            f"the method needs '{unknown[0]}' of every client, which none reports; clients report "
            f"loss, and {' and '.join(MEASURED)} are measured by the server."
        )
    if recipe.topology.local and getattr(recipe.mixing, "learns", False):
        answer = Weighed(torch.ones(1, dtype=torch.float64), memory)  # it learns from neighbours
    else:
        answer = recipe.mixing.weights(memory, cohort)
    p, memory, note, logged = checked(recipe.mixing, answer, len(cohort.ids))
    mine = _on(server.x, p)
    for keep in recipe.filters:
        filtered, mine = keep(ups.stack(), mine, cohort)
        ups = Stacked(filtered)
    after = recipe.algorithm.server(server, ups, mine, cohort)
    # A filter may reweight, or merge all into one.
    used = mine if len(mine) == len(p) else p
    return Adapted(after, memory, used.float().cpu(), note, logged)


def _on(x: Tree, p: Tensor) -> Tensor:
    """Mixing weights on the device of a model."""
    return p.to(next(iter(tree.leaves(x)), p).device)


def log(logged: dict[str, Any], told: Mapping[str, Any], ids: Tensor, n: int) -> None:
    """Add what a server's rule records: a number, or one of each of its clients."""
    for name, value in told.items():
        if isinstance(value, Tensor):
            rows = logged.get(name, torch.full((n,), torch.nan, dtype=torch.float64))
            value = rows.index_put((ids,), value.double().cpu())
        logged[name] = value
