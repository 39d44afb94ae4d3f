"""A round before all others, in which clients report how many examples of each class they have.

Nobody trains. The server takes the mean by examples, so it needs only a sum of all answers, and
passes the result to the next stage: how many examples of each class all clients have.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike.algorithm import Ctx, Stateless
from unalike.batches import Batch, Batches
from unalike.cohort import Cohort
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params
from unalike.uploads import Uploads


class Server(NamedTuple):
    """The initial model, still untrained, the shares of the classes, and of how many examples."""

    x: Params
    shares: Tensor
    examples: Tensor


class Ask(NamedTuple):
    """How many classes there are."""

    classes: Tensor


class Up(NamedTuple):
    """The shares of a client's classes."""

    shares: Tensor


class _Counts:
    """Adds up labels; given are the numbers of the classes."""

    def __call__(self, carry: Tensor, batch: Batch, given: Tensor) -> Tensor:
        """After one more minibatch."""
        return carry + ((batch.y[:, None] == given) & batch.real[:, None]).to(carry).sum(0)


COUNTS = _Counts()


@dataclass(frozen=True)
class Counting(Stateless):
    """One round in which every client reports the shares of its classes."""

    task: Task
    classes: int

    @property
    def personal_models(self) -> bool:
        """All are tested with the initial model."""
        return False

    def server_init(self, w: Params, key: Key) -> Server:
        """As if all classes were equally frequent, among no examples."""
        like = next(iter(w.values()))
        shares = like.new_full((self.classes,), 1 / self.classes)
        return Server(w, shares, torch.zeros((), dtype=torch.float64, device=like.device))

    def broadcast(self, server: Server) -> Ask:
        """The question."""
        return Ask(torch.full_like(server.shares[0], self.classes))

    def client(
        self, down: Ask, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """The shares, from one pass."""
        blank = down.classes.new_zeros(self.classes)
        number = torch.arange(self.classes, device=blank.device)
        counts = data.epochs(0, 1).fold(COUNTS, blank, number)
        return Up(counts / counts.sum().clamp(min=1)), {}, mine

    def upload_like(self, down: Ask) -> Up:
        """One number for each class."""
        return Up(down.classes.new_zeros(self.classes))

    def server(self, server: Server, ups: Uploads, p: Tensor, cohort: Cohort) -> Server:
        """The mean, and the examples of all that answered."""
        examples = cohort.stats["examples"].sum().to(server.examples)
        return server._replace(shares=ups.mean(p).shares, examples=examples)

    def personal(self, down: Ask, mine: Any) -> None:
        """Nobody has trained."""
        return

    def leaves(self, server: Server, key: Key) -> Params:
        """How many examples of each class there are; together no more than all, even after lies."""
        shares = server.shares.clamp(min=0)
        return {"counts": (shares * (server.examples / shares.sum().clamp(min=1))).round()}
