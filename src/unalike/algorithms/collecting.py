"""A round before all others, in which every client sends means of its examples (MAFL's first half).

Nobody trains. The result of the round, for the next stage, is the pool of all clients' means, as
``parts/mixup.py`` expects it; the model is still the initial one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike.algorithm import Ctx, Stateless
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.mixup import means
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params
from unalike.uploads import Uploads


class Means(NamedTuple):
    """Of parts of clients' examples; the server has a row of each client."""

    features: Tensor
    labels: Tensor
    behind: Tensor  # how many examples; 0: an empty part


class Server(NamedTuple):
    """The initial model, still untrained, and what has been received."""

    x: Params
    means: Means


class Ask(NamedTuple):
    """How many means a client shall send."""

    parts: Tensor


@dataclass(frozen=True)
class Collecting(Stateless):
    """One round in which every client sends its means."""

    task: Task
    n_clients: int
    classes: int
    shape: tuple[int, ...]
    parts: int = 1

    @property
    def personal_models(self) -> bool:
        """All are tested with the initial model."""
        return False

    def server_init(self, w: Params, key: Key) -> Server:
        """Nothing has been received."""
        return Server(w, self._blank(next(iter(w.values())), (self.n_clients, self.parts)))

    def _blank(self, like: Tensor, rows: tuple[int, ...]) -> Means:
        shapes = (*rows, *self.shape), (*rows, self.classes), rows
        return Means(*(like.new_zeros(shape) for shape in shapes))

    def broadcast(self, server: Server) -> Ask:
        """The question."""
        return Ask(torch.full_like(server.means.behind[0, 0], self.parts))

    def client(
        self, down: Ask, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Means, dict[str, Tensor], Any]:
        """The means."""
        return Means(*means(data, self.classes, self.parts)), {}, mine

    def upload_like(self, down: Ask) -> Means:
        """So many means."""
        return self._blank(down.parts, (self.parts,))

    def server(self, server: Server, ups: Uploads, p: Tensor, cohort: Cohort) -> Server:
        """Put the means of all clients into their rows."""
        rows = cohort.ids.to(server.means.behind.device)
        new = (a.index_copy(0, rows, b) for a, b in zip(server.means, ups.stack(), strict=True))
        return server._replace(means=Means(*new))

    def personal(self, down: Ask, mine: Any) -> None:
        """Nobody has trained."""
        return

    def leaves(self, server: Server, key: Key) -> Params:
        """All means, empty ones last, and how many are not."""
        x, y, count = (v.flatten(0, 1) for v in server.means)
        order = (count == 0).long().argsort(stable=True)
        return {"x": x[order], "y": y[order], "filled": (count > 0).sum()}
