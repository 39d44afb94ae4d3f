"""APFL (Deng, Kamani, Mahdavi 2020, Alg. 1): every client mixes the shared model with its own.

w_k <- w_k - eta grad F_k(w_k)                    (FedAvg's local step, or FedProx's)
v_k <- v_k - eta alpha grad F_k(u_k),   u_k = alpha v_k + (1 - alpha) w_k
alpha_k <- alpha_k - eta <v_k - w_k, grad F_k(u_k)>, kept in [0, 1]     (eq. 11, if it adapts)
w <- sum_k p_k w_k

All three steps use the same minibatch and the values before it. v_k never leaves the client and
does not affect what does: at any alpha the shared model is FedAvg's. A client is tested with alpha
v_k + (1 - alpha) w; alpha = 0 is the shared model, alpha = 1 a model trained alone.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx
from unalike.algorithms.beside import Beside, at_rest
from unalike.algorithms.draft import Draft, fedavg
from unalike.algorithms.fedavg import Down, FedAvg, Up
from unalike.algorithms.method import AVERAGING, Method, Slot
from unalike.batches import Batch, Batches
from unalike.gradient import gradient
from unalike.parts.descent import Loss, Objective, descend
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Optimizer
from unalike.rng import Key
from unalike.settings import setting
from unalike.tasks import Task
from unalike.traits import Trait
from unalike.tree import Params

Adapt = Literal["never", "round", "step"]


class Own(NamedTuple):
    """A client's own weights, the statistics of the mixed model, and its share alpha."""

    v: Params
    buffers: Params
    alpha: Tensor


class At(NamedTuple):
    """Where local training is."""

    w: Params
    buffers: Params
    own: Own
    opt: tuple[Any, Any]  # of w, of v


class Given(NamedTuple):
    """What a step reads and does not change."""

    rate: Tensor
    received: Params
    more: Any  # what the shared model's objective reads


@dataclass(frozen=True)
class Step:
    """One minibatch for both models, and for alpha."""

    task: Task
    objective: Objective  # of the shared model
    opt: Optimizer
    adapt: Adapt
    against: Literal["local", "received"]

    def __call__(self, at: At, batch: Batch, given: Given) -> At:
        """Both gradients are taken before anything moves."""
        v, alpha = at.own.v, at.own.alpha
        beside = at.w if self.against == "local" else given.received

        def shared(w: Params) -> tuple[Tensor, Params]:
            return self.objective(w, at.buffers, batch, given.more)

        def mixed(u: Params) -> tuple[Tensor, Params]:
            return self.task.loss({**u, **at.own.buffers}, batch)

        g, buffers = gradient(shared, at.w)
        slope, own = gradient(mixed, tree.lerp(beside, v, alpha))
        w, one = self.opt.update(g, at.opt[0], at.w, given.rate)
        v, two = self.opt.update(tree.scale(alpha, slope), at.opt[1], v, given.rate)
        if self.adapt != "never":
            uphill = tree.dot(tree.sub(at.own.v, beside), slope).to(alpha)
            moved = (alpha - self.opt.lr * given.rate * uphill).clamp(0, 1)
            now = torch.as_tensor(batch.t, device=alpha.device) == 0
            alpha = moved if self.adapt == "step" else torch.where(now, moved, alpha)
        return At(w, buffers, Own(v, own, alpha), (one, two))


@dataclass(frozen=True)
class Apfl(Beside):
    """FedAvg's server around clients with a second, private model."""

    base: FedAvg
    alpha: float = 0.25
    adapt: Adapt = "never"
    against: Literal["local", "received"] = "local"

    def client_init(self, w: Params, key: Key) -> Any:
        """The initial model."""
        v, buffers = self.task.split(w)
        own = Own(v, buffers, torch.full_like(next(iter(v.values())).flatten()[0], self.alpha))
        return self.base.keep(own, self._begin(v))

    def _begin(self, v: Params) -> tuple[Any, Any]:
        return self.base.opt.init(v), self.base.opt.init(v)

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """Descend on both; send the shared one."""
        own, state = self.base.kept(mine)
        if self.adapt == "never" and self.alpha == 1:
            return self._apart(down, mine, data, ctx, start)
        w, buffers = self.task.split(down.x if start is None else start)
        objective, more = self.base.objective(down, {})
        step = Step(self.task, objective, self.base.opt, self.adapt, self.against)
        first = At(w, buffers, own, self._begin(w) if state is None else state)
        end = data.fold(step, first, Given(ctx.rate, self.task.weights(down.x), more))
        up = Up(tree.sub({**end.w, **end.buffers}, down.x))
        return up, {}, self.base.keep(end.own, end.opt)

    def _apart(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """u = v, and neither model has anything to do with the other."""
        own, state = self.base.kept(mine)
        one, two = self._begin(own.v) if state is None else state
        up, _, opt = self.as_fedavg(down, (one,), data, ctx, start)
        given = own.v, own.buffers, data, ctx.rate
        end = descend(Loss(self.task), self.base.opt, *given, state=(two,))
        after = Own(end.theta, end.buffers, own.alpha)
        return up, {}, self.base.keep(after, (*opt, *end.opt))

    def personal(self, down: Down, mine: Any) -> Params:
        """The mixture of the shared model and the client's own, statistics as well."""
        alpha = self.base.kept(mine).own.alpha
        point: Params = tree.lerp(down.x, self.far_end(down, mine), alpha)
        return point

    def far_end(self, down: Down, mine: Any) -> Params:
        """This client's own model."""
        own = self.base.kept(mine).own
        return {k: {**own.v, **own.buffers}[k] for k in down.x}


class ApflMethod(Method):
    """Every client mixes the shared model with its own, with a fixed or learned share."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.FEDAVG_SERVER, Trait.FEDAVG_OBJECTIVE, Trait.OWN_MODELS})
    paper: ClassVar[str] = "Deng et al. 2020, arXiv 2003.13461"

    alpha: float = setting(
        0.25,
        "share of the client's own model, or its initial value; 0 is FedAvg, 1 training alone",
        ge=0,
        le=1,
        source="the released commands of SuPerFed, which have it as a baseline; the text tries "
        "0.25, 0.5 and 0.75",
    )
    adapt: Adapt = setting(
        "never",
        "learn alpha on every client: in the first step of a round, or in every step",
        source="our choice: a fixed share; the text has both, by its equation 11 in every step, "
        "the authors' code once a round",
    )
    against: Literal["local", "received"] = setting(
        "local",
        "what v is mixed with in training: the shared model as it moves, or as it was received",
        source="text; SuPerFed's code keeps the received one",
    )
    averaging: Literal["size", "uniform"] = AVERAGING

    def change(self, draft: Draft) -> Draft:
        """Wrap FedAvg."""

        def base(d: Draft) -> Apfl:
            return Apfl(fedavg(d), self.alpha, self.adapt, self.against)

        draft = replace(draft, base=base)
        if self.adapt == "never" and self.alpha == 0:
            draft = at_rest(draft)
        return replace(draft, mean=Uniform()) if self.averaging == "uniform" else draft
