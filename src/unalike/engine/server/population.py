"""What a server knows about all its clients, however many: computed once, not in every round."""

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.engine.transport import Clients
from unalike.parts.mixing.base import Mixing, checked
from unalike.rng import Key


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
