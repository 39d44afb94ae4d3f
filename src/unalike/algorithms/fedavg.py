"""FedAvg (McMahan et al. 2017, Alg. 1) with its parts exposed.

x_k <- x;  repeat: x_k <- x_k - eta grad [F_k(x_k) + term(x_k, x)]      (client)
x   <- x + server_opt(sum_k p_k (x_k - x))                              (server)

Half of the methods here are this record with one part exchanged: a term (FedProx), a server
optimizer (FedAdam), a private part (LG-FedAvg); mixing weights, schedule, topology and data
transform are parts of the recipe around it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.local import Descent, descend
from unalike.parts.objective import Nothing, Term
from unalike.parts.optim import Optimizer, Sgd
from unalike.parts.private import SHARED, Private
from unalike.parts.turns import in_turns
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params
from unalike.uploads import Uploads

Step = Literal["joint", "sequential"]


class Server(NamedTuple):
    """The shared leaves, the server optimizer's state and the term's."""

    x: Params
    opt: Any
    term: Any


class Down(NamedTuple):
    """What a client receives; the coefficient is empty if the objective has no term."""

    x: Params
    coefficient: Any


class Up(NamedTuple):
    """What a client sends: the difference from what it received."""

    delta: Params


@dataclass(frozen=True)
class FedAvg:
    """Local descent, weighted averaging, a server step.

    Private and shared leaves take one ``joint`` step on a batch, or the private ones go first.
    """

    task: Task
    opt: Optimizer = Sgd(0.1)
    term: Term = Nothing()
    server_opt: Optimizer = Sgd(1.0)
    private: Private = SHARED
    step: Step = "joint"

    @property
    def needs(self) -> frozenset[str]:
        """What the term's server half reads."""
        return self.term.needs

    @property
    def personal_models(self) -> bool:
        """If anything is private."""
        network = self.task.network
        return any(map(self.private, (*network.weights, *network.buffers)))

    def server_init(self, w: Params, key: Key) -> Server:
        """The shared leaves of the initial model."""
        _, x = tree.split(w, self.private)
        return Server(x, self.server_opt.init(self.task.weights(x)), self.term.init())

    def client_init(self, w: Params, key: Key) -> Params:
        """The private leaves of the initial model."""
        return tree.split(w, self.private)[0]

    def broadcast(self, server: Server) -> Down:
        """The shared leaves and the term's coefficient."""
        return Down(server.x, getattr(server.term, "coefficient", ()))

    def client(
        self, down: Down, mine: Params, data: Batches, ctx: Ctx
    ) -> tuple[Up, dict[str, Tensor], Params]:
        """Descend from the received model; keep the private leaves, send the others' change."""
        x = self.personal(down, mine)
        anchor = self.task.weights(x)
        train: Callable[..., Descent] = descend
        if self.step == "sequential":
            train = partial(in_turns, first=self.private)
        end = train(
            self.task,
            x,
            data,
            self.opt,
            ctx.rate,
            term=None
            if isinstance(self.term, Nothing)
            else lambda w: self.term(down.coefficient, w, anchor),
        )
        kept, shared = tree.split(end.w, self.private)
        return Up(tree.sub(shared, down.x)), {"steps": end.steps}, kept

    def server(self, server: Server, ups: Uploads, p: Tensor, cohort: Cohort) -> Server:
        """Step along the mean difference; buffers are averaged, whatever the optimizer."""
        mean = ups.mean(p).delta
        weights, buffers = self.task.split(server.x)
        g = {k: -mean[k] for k in weights}
        weights, opt = self.server_opt.update(g, server.opt, weights)
        total = p.sum()
        moved = {k: b + mean[k] / total.to(b.dtype) for k, b in buffers.items()}
        return Server({**weights, **moved}, opt, self.term.update(server.term, cohort))

    def personal(self, down: Down, mine: Params) -> Params:
        """The shared leaves with this client's own."""
        return {**down.x, **mine}

    def model(self, server: Server, key: Key) -> Params | None:
        """The shared model, if nothing of it is private."""
        whole = len(server.x) == len(self.task.network.weights) + len(self.task.network.buffers)
        return server.x if whole else None
