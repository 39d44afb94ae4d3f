"""Local steps with a correction, for SCAFFOLD and gradient tracking.

K times: y <- y - eta (g(y) + shift);   z = (x - y) / (K eta), the mean of the steps' directions

If leaves of the model are private, x, shift and z cover the other leaves. Private leaves take plain
steps, together with the others or in turn, as FedAvg's clients do.
"""

from typing import Any, NamedTuple, Self

from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedavg import Apart, FedAvg, Step
from unalike.algorithms.method import WHOLE_STEP, forgotten, plain_sgd, two_steps
from unalike.batches import Batches
from unalike.parts.descent import Loss
from unalike.parts.optim import Optimizer, Sgd
from unalike.parts.private import SHARED, Private
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params


class Cut(NamedTuple):
    """Which leaves of a model are private, and in which order its parts train."""

    private: Private = SHARED
    step: Step = "joint"
    apart: Apart | None = None

    @classmethod
    def of(cls, draft: Draft) -> Self:
        """As a draft has it."""
        return cls(draft.private, draft.step, draft.apart)


WHOLE = Cut()


def step_of(draft: Draft) -> Optimizer | None:
    """The server's optimizer, if a method sets one."""
    return None if draft.server_opt == WHOLE_STEP else draft.server_opt


def unfit(draft: Draft, server_lr: float, method: str) -> str:
    """Why gradients cannot be read from a client's path, or be summed; empty if they can."""
    why = two_steps(draft, server_lr, method) or forgotten(draft, method)
    return why or plain_sgd(draft, method)


class Down(NamedTuple):
    """What a client trains with: the shared leaves, and a control variate or a correction."""

    x: Params
    c: Params


class Mine(NamedTuple):
    """A client's private leaves, if any, and its control variate; empty if it has none."""

    own: Params
    c: Params


class Way(NamedTuple):
    """Where local training ended, and how it got there."""

    w: Params  # the shared leaves
    own: Params  # the private ones
    z: Params
    stats: dict[str, Tensor]


class Corrected(Stateless):
    """A method with such clients."""

    task: Task
    opt: Sgd
    server_lr: float
    cut: Cut
    server_opt: Optimizer | None = None  # of another method's server; None: steps of that rate

    @property
    def local(self) -> FedAvg:
        """The same steps without a correction."""
        private, step, apart = self.cut
        return FedAvg(self.task, self.opt, private=private, step=step, apart=apart)

    @property
    def personal_models(self) -> bool:
        """Whether anything is private."""
        return self.local.personal_models

    def handed(self, w: Params) -> Params:
        """The private leaves."""
        return self.local.handed(w)

    def shared(self, w: Params) -> tuple[Params, Params]:
        """(the shared leaves of a model, zeros in the form of those that train)."""
        _, x = tree.split(w, self.cut.private)
        return x, tree.zeros(self.task.weights(x))

    def corrected(self, x: Params, own: Params, shift: Params, data: Batches, ctx: Ctx) -> Way:
        """Local training from the shared leaves ``x``, and the directions read from its path."""
        whole, local = {**x, **own}, self.local
        weights = self.task.weights(whole)
        shift = {k: shift[k] if k in shift else tree.zeros(w) for k, w in weights.items()}
        end = local.descent(whole, Loss(self.task), (), data, ctx, shift=shift)
        own, w = tree.split({**end.theta, **end.buffers}, self.cut.private)
        K, eta = local.steps(data), self.opt.lr * ctx.rate
        z = {k: (x[k] - w[k]) / (K * eta) for k in self.task.weights(w)}
        return Way(w, own, z, {} if self.cut.apart is None else {"steps": K.float()})

    def begin(self, c: Params) -> Any:
        """What the server's optimizer remembers first, if there is one."""
        return () if self.server_opt is None else self.server_opt.init(c)

    def stepped(self, x: Params, mean: Params, total: Tensor, opt: Any = ()) -> tuple[Params, Any]:
        """The server's step along a mean change with weights of that sum; buffers are averaged."""
        weights, buffers = self.task.split(x)
        if self.server_opt is None:
            moved = {k: w + self.server_lr * mean[k] for k, w in weights.items()}
        else:
            moved, opt = self.server_opt.update({k: -mean[k] for k in weights}, opt, weights)
        return moved | {k: b + mean[k] / total.to(b.dtype) for k, b in buffers.items()}, opt

    def personal(self, down: Any, mine: Mine) -> Params:
        """The shared leaves with this client's own."""
        return {**down.x, **mine.own}

    def model(self, server: Any, key: Key) -> Params | None:
        """The shared model, if nothing of it is private."""
        return self.local.model(server, key)
