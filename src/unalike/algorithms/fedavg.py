"""FedAvg (McMahan et al. 2017, Alg. 1) with its parts exposed.

x_k <- x;  repeat: x_k <- x_k - eta grad [F_k(x_k) + term(x_k, x)]      (client)
x   <- x + server_opt(sum_k p_k (x_k - x))                              (server)

Half of the methods here are this record with one part exchanged: a term (FedProx), a server
optimizer (FedAdam), a private part (LG-FedAvg); mixing weights, schedule, topology and data
transform are parts of the recipe around it.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx, Stateless
from unalike.batches import Batch, Batches
from unalike.cohort import Cohort
from unalike.parts.descent import Descent, Objective, begin, descend, penalised
from unalike.parts.objective import Nothing, Term
from unalike.parts.optim import Optimizer, Sgd
from unalike.parts.representation.cut import LOCAL
from unalike.parts.representation.private import SHARED, Private
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params
from unalike.uploads import Uploads

Step = Literal["joint", "sequential", "auxiliary"]


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


class Kept(NamedTuple):
    """What a client keeps where its optimizer continues from round to round."""

    own: Any  # its own leaves, or what a method around this one keeps of its own
    opt: Any


class Apart(NamedTuple):
    """Private leaves train first with the others frozen, then the others with the private ones."""

    epochs: int | None = None  # of the others: the first ones of the round; None: all


@dataclass(frozen=True)
class Holding:
    """An objective of some of the weights; given are all of them, and what it reads else."""

    objective: Objective

    def __call__(
        self, theta: Params, buffers: Params, batch: Batch, given: tuple[Params, Any]
    ) -> tuple[Tensor, Params]:
        """The objective with the rest as it was."""
        return self.objective({**given[0], **theta}, buffers, batch, given[1])


@dataclass(frozen=True)
class FedAvg(Stateless):
    """Local descent, weighted averaging, a server step.

    Private and shared leaves take one ``joint`` step on a batch, or the private ones go first, or
    those of an auxiliary network on the client.
    """

    task: Task
    opt: Optimizer = Sgd(0.1)
    term: Term = Nothing()
    server_opt: Optimizer = Sgd(1.0)
    private: Private = SHARED
    step: Step = "joint"
    keep_optimizer: bool = False
    apart: Apart | None = None

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """What the term's server half reads."""
        return self.term.needs

    @property
    def personal_models(self) -> bool:
        """Whether anything is private."""
        network = self.task.network
        return any(map(self.private, (*network.weights, *network.buffers)))

    @property
    def separable(self) -> bool:
        """Where no term reads the cohort."""
        return isinstance(self.term, Nothing)

    @property
    def turns(self) -> Private | None:
        """The leaves that step by themselves, and first."""
        if self.apart is not None:
            return self.private
        first = {"sequential": self.private, "auxiliary": Private((f"{LOCAL}.",))}
        return first.get(self.step)

    def server_init(self, w: Params, key: Key) -> Server:
        """The shared leaves of the initial model."""
        _, x = tree.split(w, self.private)
        return Server(x, self.server_opt.init(self.task.weights(x)), self.term.init())

    def client_init(self, w: Params, key: Key) -> Any:
        """The private leaves of the initial model."""
        return self.first(self.handed(w), self.task.weights(w))

    def handed(self, w: Params) -> Params:
        """The private leaves."""
        return tree.split(w, self.private)[0]

    def first(self, own: Params, theta: Any) -> Any:
        """What a client keeps before it ever descended on ``theta``."""
        return Kept(own, begin(self.opt, theta, self.turns)) if self.keep_optimizer else own

    def keep(self, own: Any, opt: Any) -> Any:
        """What a client keeps of its own leaves and its optimizer."""
        return Kept(own, opt) if self.keep_optimizer else own

    def kept(self, mine: Any) -> Kept:
        """Its own leaves, and the optimizer to continue with, if any."""
        return mine if self.keep_optimizer else Kept(mine, None)

    def broadcast(self, server: Server) -> Down:
        """The shared leaves and the term's coefficient."""
        return Down(server.x, getattr(server.term, "coefficient", ()))

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """Descend from the received model; keep the private leaves, send the others' change."""
        own, state = self.kept(mine)
        w = {**(down.x if start is None else start), **own}
        end = self.descent(w, *self.objective(down, own), data, ctx, state)
        stats = {} if self.apart is None else {"steps": self.steps(data).float()}
        own, shared = tree.split({**end.theta, **end.buffers}, self.private)
        return Up(tree.sub(shared, down.x)), stats, self.keep(own, end.opt)

    def descent(
        self,
        w: Params,
        objective: Objective,
        given: Any,
        data: Batches,
        ctx: Ctx,
        state: Any = None,
        shift: Params | None = None,
    ) -> Descent:
        """Where local training from ``w`` ends; ``shift`` is added to all gradients."""
        theta, buffers = self.task.split(w)
        if self.apart is None:
            more = {"state": state, "turns": self.turns, "shift": shift}
            return descend(objective, self.opt, theta, buffers, data, ctx.rate, given, **more)
        state = begin(self.opt, theta, self.turns) if state is None else state
        ends, step = [], Holding(objective)
        turns = zip(tree.split(theta, self.private), (data, self._later(data)), strict=True)
        for (part, some), opt in zip((p for p in turns if p[0]), state, strict=True):
            more = {"state": (opt,), "shift": shift and {k: shift[k] for k in part}}
            seen = theta, given
            end = descend(step, self.opt, part, buffers, some, ctx.rate, seen, **more)
            theta, buffers = {**theta, **end.theta}, end.buffers
            ends += end.opt
        return Descent(theta, buffers, tuple(ends))

    def _later(self, data: Batches) -> Batches:
        """The minibatches of the shared leaves."""
        if self.apart is None or self.apart.epochs is None:
            return data
        return data.epochs(0, self.apart.epochs)

    def steps(self, data: Batches) -> Tensor:
        """How many the shared leaves take."""
        return self._later(data).steps

    def objective(self, down: Down, own: Params) -> tuple[Objective, Any]:
        """What a client minimises, and what that reads of the round."""
        received = self.task.weights({**down.x, **own})
        return penalised(self.task, self.term, down.coefficient, received)

    def upload_like(self, down: Down) -> Up:
        """The shared leaves."""
        return Up(down.x)

    def server(self, server: Server, ups: Uploads, p: Tensor, cohort: Cohort) -> Server:
        """Step along the mean difference; buffers are averaged, whatever the optimizer."""
        mean = ups.mean(p).delta
        weights, buffers = self.task.split(server.x)
        g = {k: -mean[k] for k in weights}
        weights, opt = self.server_opt.update(g, server.opt, weights)
        total = p.sum()
        moved = {k: b + mean[k] / total.to(b.dtype) for k, b in buffers.items()}
        return Server({**weights, **moved}, opt, self.term.update(server.term, cohort))

    def personal(self, down: Down, mine: Any) -> Params:
        """The shared leaves with this client's own."""
        return {**down.x, **self.kept(mine).own}

    def model(self, server: Server, key: Key) -> Params | None:
        """The shared model, if nothing of it is private."""
        whole = len(server.x) == len(self.task.network.weights) + len(self.task.network.buffers)
        return server.x if whole else None
