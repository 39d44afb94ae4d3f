"""pFedMe (T. Dinh, Tran, Nguyen 2020, Alg. 1): personal models by Moreau envelopes.

on every minibatch: theta <- K steps on F_k(theta) + lambda/2 ||theta - w_k||^2
                    w_k <- w_k - eta lambda (w_k - theta)                      (eq. 8)
w <- (1 - beta) w + beta sum_k p_k w_k

theta begins a round at the received model and continues from minibatch to minibatch, as in the
authors' code. It stays on the client, which is judged by the last one it had.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx
from unalike.algorithms.beside import Beside
from unalike.algorithms.draft import Draft, fedavg
from unalike.algorithms.fedavg import Down, FedAvg, Up
from unalike.algorithms.fedprox import Proximal
from unalike.algorithms.method import AVERAGING, Method, Slot
from unalike.batches import Batch, Batches
from unalike.parts.descent import Descent, Given, Penalised, begin
from unalike.parts.descent import Step as Inner
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Optimizer, Sgd
from unalike.settings import setting
from unalike.tasks import Task
from unalike.traits import Trait
from unalike.tree import Params


class At(NamedTuple):
    """Where local training is: the centre, and the personal model around it."""

    w: Params
    theta: Descent


class Rates(NamedTuple):
    """What a step reads and does not change."""

    rate: Tensor
    pull: Tensor  # lambda


@dataclass(frozen=True)
class Step:
    """One minibatch: some steps of the personal model, then one of the centre."""

    task: Task
    opt: Optimizer
    lr: float
    pull: float
    steps: int

    def __call__(self, at: At, batch: Batch, given: Rates) -> At:
        """All steps of the personal model make the same draws."""
        inner = Inner(Penalised(self.task, Proximal(self.pull)), self.opt)
        theta, read = at.theta, Given(given.rate, (), (given.pull, at.w))
        for _ in range(self.steps):
            theta = inner(theta, batch, read)
        share = self.lr * given.rate * self.pull
        return At(tree.lerp(at.w, theta.theta, share), theta)


@dataclass(frozen=True)
class PFedMe(Beside):
    """FedAvg's server around clients that descend on their envelopes."""

    base: FedAvg
    pull: float = 15.0
    steps: int = 5
    lr: float = 0.005
    whole: bool = False  # one step, and the centre goes all the way: there is never a pull

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """Descend on the envelope; send the centre, keep the personal model."""
        state, opt = self.base.kept(mine).opt, self.base.opt
        if self.whole:
            up, own, after = self.as_fedavg(down, state, data, ctx, start)
            return up, {}, self.base.keep(own, after)
        w, buffers = self.task.split(down.x if start is None else start)
        theta = Descent(w, buffers, begin(opt, w) if state is None else state)
        step = Step(self.task, opt, self.lr, self.pull, self.steps)
        given = Rates(ctx.rate, torch.full_like(ctx.rate, self.pull))
        end = data.fold(step, At(w, theta), given)
        up = Up(tree.sub({**end.w, **end.theta.buffers}, down.x))
        own = {**end.theta.theta, **end.theta.buffers}
        return up, {}, self.base.keep(own, end.theta.opt)

    def personal(self, down: Down, mine: Any) -> Params:
        """The client's last personal model."""
        own: Params = self.base.kept(mine).own
        return own


class PFedMeMethod(Method):
    """Clients solve for a personal model near the shared one, which follows what they find."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.FEDAVG_SERVER, Trait.PULLS_ITSELF, Trait.OWN_MODELS})
    paper: ClassVar[str] = "T. Dinh et al. 2020, arXiv 2006.08848"

    pull: float = setting(
        15.0,
        "strength of the pull between a personal model and the shared one (lambda)",
        gt=0,
        source="text: the value of the experiments on MNIST",
    )
    steps: int = setting(
        5, "steps of the personal model on a minibatch (K)", ge=1, source="text: the experiments'"
    )
    lr: float = setting(
        0.005,
        "learning rate of the shared model on a client (eta); local.lr is the personal model's",
        gt=0,
        source="text: the value of the experiments on MNIST",
    )
    beta: float = setting(
        1.0,
        "step of the server; 1: the mean itself",
        gt=0,
        source="text: beta = 1 is the plain mean; the experiments also have 2",
    )
    averaging: Literal["size", "uniform"] = AVERAGING

    def change(self, draft: Draft) -> Draft:
        """Wrap FedAvg; the server's step only if it is not the whole one."""

        def base(d: Draft) -> PFedMe:
            whole = self.steps == 1 and self.lr * self.pull == 1 and d.decay.kind == "constant"
            return PFedMe(fedavg(d), self.pull, self.steps, self.lr, whole)

        draft = replace(draft, base=base)
        if self.beta != 1:
            draft = replace(draft, server_opt=Sgd(self.beta))
        return replace(draft, mean=Uniform()) if self.averaging == "uniform" else draft

    def objection(self, draft: Draft) -> str:
        """The centre must not jump over the personal model."""
        if self.lr * self.pull <= 1:
            return ""
        return (
            f"method 'pfedme' would move the shared model {self.lr * self.pull:g} times the way to "
            "the personal one; lower lr or pull until their product is at most 1."
        )
