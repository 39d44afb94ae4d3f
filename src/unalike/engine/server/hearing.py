"""Servers hear their neighbours, who count as much as the mixing rule says."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike.engine.graph.combine import exchanged
from unalike.engine.graph.learners import weighed
from unalike.engine.graph.neighbours import among, by_receiver, metropolis, proportional, table
from unalike.engine.server.population import Answered, Population
from unalike.parts.mixing.base import Proportional
from unalike.recipe import Recipe
from unalike.tree import Tree


class Heard(NamedTuple):
    """What servers are, know and remember once they have heard their neighbours."""

    stack: Any  # the servers, one row each
    copies: Tree  # what all know about each node, if messages are compressed
    memories: list[Any]  # of the rule of each server
    sizes: Tensor | None = None  # the bytes that each server said, unless all are alike
    notes: list[str] = []  # what the rule wants a person to know
    mixed: dict[int, dict[int, float]] = {}  # server -> neighbour -> weight


class Hearing:
    """The servers of a recipe along the edges of a graph."""

    def __init__(self, recipe: Recipe, everybody: Population, circles: dict[int, Tensor]) -> None:
        """``circles`` are the clients of each server's learner, where weights are learned."""
        self.recipe, self.all, self.circles = recipe, everybody, circles

    def said(self, edges: Tensor, at: Tensor) -> Tensor:
        """The edges that messages go along: copies are kept up by those that sit a round out."""
        if self.recipe.copies is None:
            return self.heard(edges, at)
        return edges[torch.isin(edges[:, 1], at)]

    def heard(self, edges: Tensor, at: Tensor) -> Tensor:
        """The edges in use: a server whose clients all stayed silent says nothing."""
        awake = torch.zeros(self.all.servers, dtype=torch.bool)
        awake[at] = True
        used = awake[edges[:, 1]]
        if self.recipe.topology.local:
            used = used & awake[edges[:, 0]]
        return edges[used]

    def combined(
        self, stack: Any, copies: Tree, memories: Sequence[Any], edges: Tensor, told: Answered
    ) -> Heard:
        """Every server takes a weighted sum of the servers that it hears."""
        heard = self.heard(edges, self.all.home[told.ids])
        found = Heard(stack, copies, list(memories))
        if not len(heard):
            return found
        weights, found = self._weights(found, edges, heard, told)
        given = stack, copies, heard, weights
        stack, copies, sizes = exchanged(self.recipe, *given, told.ids, told.key)
        mixed = table(heard, weights)
        return found._replace(stack=stack, copies=copies, sizes=sizes, mixed=mixed)

    def _weights(
        self, found: Heard, edges: Tensor, heard: Tensor, told: Answered
    ) -> tuple[Tensor, Heard]:
        """[E] how much each server that is heard counts with the one that hears it."""
        mixing, at, k = self.recipe.mixing, self.all.home[told.ids], self.all.servers
        if self.recipe.topology.weights == "metropolis":
            return metropolis(heard, k), found
        if isinstance(mixing, Proportional):
            u = mixing.proportion(told.stats)
            whole = torch.zeros(k, dtype=u.dtype).index_add(0, at, u)
            return proportional(heard, whole), found
        linked, memories = by_receiver(edges), list(found.memories)
        notes, rows = list[str](), list[Tensor]()
        for j, senders in by_receiver(heard).items():
            here, known = (among(some, k) for some in (senders, linked[j]))
            clients = here[at].nonzero()[:, 0], known[self.all.home].nonzero()[:, 0]
            part = self.all.cohort(self.recipe, told, j, *clients)
            p, memories[j], note, _ = weighed(mixing, memories[j], part, self.circles.get(j))
            notes.append(note)
            row = torch.zeros(k, dtype=p.dtype).index_add(0, self.all.home[part.ids], p)
            rows.append((row / row.sum())[senders])
        return torch.cat(rows), found._replace(memories=memories, notes=notes)
