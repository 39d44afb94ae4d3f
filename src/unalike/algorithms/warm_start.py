"""FedAvg on the whole model first, then a part of it private (the start of LG-FedAvg's authors).

t < T0:   x <- FedAvg(x), everything is shared and averaged
t = T0:   every client, whether it takes part or not, takes over the private leaves of x
t >= T0:  the shared leaves are averaged, the private ones stay where they are
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx, Wrapper
from unalike.algorithms.fedavg import Down, FedAvg, Server, Up
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.private import SHARED
from unalike.rng import Key
from unalike.tree import Params
from unalike.uploads import Uploads


class Memory(NamedTuple):
    """What a server remembers beside the model."""

    opt: Any
    term: Any


class Staged(NamedTuple):
    """A whole model, the rounds it has seen, and the server's memory in either stage."""

    x: Params
    rounds: Tensor
    whole: Memory
    parts: Memory


class Parts(NamedTuple):
    """A download of the second stage: the shared leaves, and where the private ones begin.

    The latter go to everybody before the first such round (``news``); afterwards clients have them
    (``held``), and nothing is sent.
    """

    x: Params
    coefficient: Any
    news: Params
    held: Params


class Mine(NamedTuple):
    """A client's private leaves, if they are its own already."""

    own: Tensor
    private: Params


@dataclass(frozen=True)
class WarmStart(Wrapper):
    """``base``, which keeps leaves private, after ``rounds`` in which it keeps none."""

    base: FedAvg
    rounds: int

    @property
    def whole(self) -> FedAvg:
        """The first stage."""
        return replace(self.base, private=SHARED, step="joint")

    def server_init(self, w: Params, key: Key) -> Staged:
        """The initial model."""
        first, second = (_memory(a.server_init(w, key)) for a in (self.whole, self.base))
        return Staged(w, torch.zeros((), dtype=torch.int64), first, second)

    def client_init(self, w: Params, key: Key) -> Mine:
        """Nothing of its own."""
        nothing = torch.zeros((), dtype=torch.bool, device=key.device)
        return Mine(nothing, self.base.client_init(w, key))

    def broadcast(self, server: Staged) -> Down | Parts:
        """The whole model, or its shared leaves."""
        done = int(server.rounds)
        if done < self.rounds:
            return self.whole.broadcast(Server(server.x, *server.whole))
        private, x = tree.split(server.x, self.base.private)
        coefficient = self.base.broadcast(Server(x, *server.parts)).coefficient
        first = done == self.rounds
        return Parts(x, coefficient, private if first else {}, {} if first else private)

    def stages(self, server: Staged) -> dict[int, Staged]:
        """FedAvg, the one round in which the private leaves are news, and the rounds after it."""
        rounds = (0, self.rounds, self.rounds + 1)
        return {t: server._replace(rounds=torch.full_like(server.rounds, t)) for t in rounds}

    def client(
        self, down: Down | Parts, mine: Mine, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Mine]:
        """FedAvg's client of either stage."""
        if isinstance(down, Down):
            up, stats, _ = self.whole.client(down, {}, data, ctx)
            return up, stats, mine
        received = Down(down.x, down.coefficient)
        up, stats, kept = self.base.client(received, _private(down, mine), data, ctx)
        return up, stats, Mine(torch.ones_like(mine.own), kept)

    def server(self, server: Staged, ups: Uploads, p: Tensor, cohort: Cohort) -> Staged:
        """FedAvg's step of either stage."""
        done = server.rounds + 1
        if int(server.rounds) < self.rounds:
            new = self.whole.server(Server(server.x, *server.whole), ups, p, cohort)
            return server._replace(x=new.x, rounds=done, whole=_memory(new))
        _, x = tree.split(server.x, self.base.private)
        new = self.base.server(Server(x, *server.parts), ups, p, cohort)
        return server._replace(x={**server.x, **new.x}, rounds=done, parts=_memory(new))

    def personal(self, down: Down | Parts, mine: Mine) -> Params:
        """The whole model, or the shared leaves with this client's own."""
        return down.x if isinstance(down, Down) else {**down.x, **_private(down, mine)}

    def received(self, down: Down | Parts, mine: Mine) -> Params:
        """The same."""
        return self.personal(down, mine)

    def model(self, server: Staged, key: Key) -> Params | None:
        """The whole model, until clients have changed their own part of it."""
        if int(server.rounds) <= self.rounds:
            return server.x
        _, x = tree.split(server.x, self.base.private)
        return self.base.model(Server(x, *server.parts), key)


def _memory(server: Server) -> Memory:
    return Memory(server.opt, server.term)


def _private(down: Parts, mine: Mine) -> Params:
    """Where a client's private leaves begin."""
    return tree.where(mine.own, mine.private, {**down.news, **down.held})
