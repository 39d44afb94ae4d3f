"""Rules that learn weights from round to round, where every client is its own server.

Each node has its own learner, whose clients are its closed neighbourhood: itself and those it hears
while no link is lost. It learns from what they report in a round and weights their models by the
new decision. Those that it does not hear in a round are treated like clients of a star that did not
answer. On a complete graph every learner equals that of the star.
"""

from typing import Any

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.engine.graph.neighbours import by_receiver
from unalike.parts.mixing.base import Mixing, Weighed
from unalike.parts.topology import Decentralized
from unalike.recipe import Recipe


def circles(recipe: Recipe, n: int) -> dict[int, Tensor]:
    """The clients of each server's learner, in ascending order; none where nothing is learned."""
    topology = recipe.topology
    if not getattr(recipe.mixing, "learns", False) or not isinstance(topology, Decentralized):
        return {}
    return {j: some.contiguous() for j, some in by_receiver(topology.graph(0, n)).items()}


def memory(recipe: Recipe, n: int, circle: Tensor | None) -> Any:
    """What a server's rule remembers before the first round."""
    return recipe.mixing.init(n if circle is None else len(circle))


def weighed(rule: Mixing, memory: Any, part: Cohort, circle: Tensor | None) -> Weighed:
    """A server's weights for those it hears, and what its rule remembers then."""
    if circle is None:  # nothing that it would remember from its neighbours
        p, _, note, logged = rule.weights(memory, part)
        return Weighed(p, memory, note, logged)
    ids, known = (torch.searchsorted(circle, x) for x in (part.ids, part.known))
    return rule.weights(memory, part._replace(ids=ids, known=known))
