"""What a server knows about all its clients, however many: computed once, not in every round."""

from typing import NamedTuple

import torch
from torch import Tensor

from unalike import rng
from unalike.cohort import Cohort
from unalike.engine.transport import Clients
from unalike.parts.mixing.base import Mixing, checked
from unalike.recipe import Recipe
from unalike.rng import Key


class Answered(NamedTuple):
    """The clients whose answers of a round count, and what is known of them."""

    t: int
    ids: Tensor
    stats: dict[str, Tensor]  # what they reported
    survey: dict[str, Tensor]  # every client's answers
    noise: Key  # the server's stream

    @property
    def key(self) -> Key:
        """The key of the round."""
        return rng.fold_in(self.noise, self.t + 1)


class Population:
    """All clients of a run and the servers they belong to."""

    def __init__(self, clients: Clients, home: Tensor) -> None:
        """``home`` is the server of each client."""
        self.clients, self.home, self.servers = clients, home, int(home.max()) + 1
        self._members: dict[int, Tensor] = {}
        self._standing: tuple[dict[str, Tensor], Tensor] | None = None

    def members(self, server: int) -> Tensor:
        """The clients of a server."""
        if server not in self._members:
            self._members[server] = (self.home == server).nonzero()[:, 0]
        return self._members[server]

    def standing(self, mixing: Mixing, survey: dict[str, Tensor], key: Key) -> Tensor | None:
        """What clients count among all clients, by a rule that looks at nothing of the round."""
        if not mixing.fixed or self.servers > 1:
            return None
        if self._standing is None or self._standing[0] is not survey:
            sizes, everybody = self.clients.sizes.double(), torch.arange(self.clients.n)
            numbers = {"examples": sizes, "steps": torch.ones_like(sizes)}
            whole = Cohort(0, everybody, numbers, survey, everybody, key)
            answer = mixing.weights(mixing.init(self.clients.n), whole)
            self._standing = survey, checked(mixing, answer, self.clients.n).p
        return self._standing[1]

    def cohort(
        self, recipe: Recipe, told: Answered, server: int, here: Tensor, known: Tensor
    ) -> Cohort:
        """Some of those that answered, by their positions, as a server sees them.

        ``known`` are the clients that it could have heard.
        """
        host = recipe.topology.host(told.t, self.clients.n)
        own = self.members(server) if host is None else torch.tensor([host])
        ids, numbers = told.ids[here], {name: v[here] for name, v in told.stats.items()}
        standing = self.standing(recipe.mixing, told.survey, told.noise)
        standing = None if standing is None else standing[ids]
        return Cohort(told.t, ids, numbers, told.survey, known, told.key, own, standing)
