"""Per-FedAvg (Fallah, Mokhtari, Ozdaglar 2020, Alg. 1): a shared model that is easy to adapt.

minimise sum_k p_k F_k(w - alpha grad F_k(w)); on minibatches D, D', D'':
u = w - alpha grad F_k(w; D)
w <- w - beta (I - alpha Hess F_k(w; D'')) grad F_k(u; D')
FO: without the Hessian, on D and D' only
HF: Hess g by (grad F_k(w + delta g; D'') - grad F_k(w - delta g; D'')) / (2 delta)

beta is the local learning rate. In the last rounds, a stage of their own, every client takes
gradient steps of rate alpha on all its examples from the shared model, and is judged by the result.
alpha = 0 is FedAvg on the minibatches D'.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx, Wrapper
from unalike.algorithms.draft import After, Draft, fedavg
from unalike.algorithms.fedavg import Down, FedAvg, Up
from unalike.algorithms.finetune import alone, no_round_left
from unalike.algorithms.method import AVERAGING, Method, Slot
from unalike.batches import Batch, Batches
from unalike.gradient import gradient
from unalike.parts.descent import Descent, Given, begin
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Optimizer, Sgd
from unalike.recipe import Decay
from unalike.settings import setting
from unalike.tasks import Task
from unalike.traits import Trait
from unalike.tree import Params

Kind = Literal["first_order", "hessian_free"]
WHOLE = 1 << 40  # more examples than any client has


@dataclass(frozen=True)
class Meta:
    """One step of the shared model through one of a client's own."""

    task: Task
    opt: Optimizer
    alpha: float
    kind: Kind
    delta: float

    def slope(self, w: Params, buffers: Params, batch: Batch) -> tuple[Params, Params]:
        """(the gradient of the loss, the statistics after its forward pass)."""

        def loss(w: Params) -> tuple[Tensor, Params]:
            return self.task.loss({**w, **buffers}, batch)

        return gradient(loss, w)

    def __call__(self, at: Descent, batch: Any, given: Given) -> Descent:
        """Statistics are those of the adapted model."""
        some = batch if isinstance(batch[0], Batch) else (batch,)  # one for all, or one for each
        u = w = at.theta
        buffers = at.buffers
        if self.alpha:
            own, _ = self.slope(w, buffers, some[0])
            u = tree.map(lambda w, g: w - self.alpha * g, w, own)
        g, moved = self.slope(u, buffers, some[1 % len(some)])
        if self.alpha and self.kind == "hessian_free":
            up, down = (tree.map(lambda w, g, d=d: w + d * g, w, g) for d in self._apart())
            above, _ = self.slope(up, buffers, some[2 % len(some)])
            below, _ = self.slope(down, buffers, some[2 % len(some)])
            bend = self.alpha / (2 * self.delta)
            g = tree.map(lambda g, a, b: g - bend * (a - b), g, above, below)
        w, state = self.opt.update(g, at.opt[0], w, given.rate)
        return Descent(w, moved, (state,))

    def _apart(self) -> tuple[float, float]:
        return self.delta, -self.delta


@dataclass(frozen=True)
class PerFedAvg(Wrapper):
    """FedAvg's server around clients that look one step ahead."""

    base: FedAvg
    alpha: float = 0.01
    kind: Kind = "hessian_free"
    delta: float = 0.001
    same: bool = False  # whether one minibatch serves for all gradients of a step

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """Descend on the loss after a step."""
        own, state = self.base.kept(mine)
        w, buffers = self.task.split(down.x if start is None else start)
        opt = self.base.opt
        first = Descent(w, buffers, begin(opt, w) if state is None else state)
        step = Meta(self.task, opt, self.alpha, self.kind, self.delta)
        batches = 1 if self.same else {"first_order": 2, "hessian_free": 3}[self.kind]
        end = data.fold(step, first, Given(ctx.rate, (), ()), batches=batches)
        up = Up(tree.sub({**end.theta, **end.buffers}, down.x))
        return up, {}, self.base.keep(own, end.opt)


class PerFedAvgMethod(Method):
    """A shared model that is good after one step on a client's data; clients take it at the end."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.FEDAVG_SERVER})
    paper: ClassVar[str] = "Fallah et al. 2020, arXiv 2002.07948"

    alpha: float = setting(
        0.01,
        "learning rate of the look-ahead step; 0 is FedAvg",
        ge=0,
        source="text: the value of the experiments",
    )
    gradients: Kind = setting(
        "hessian_free",
        "the Hessian by a difference of gradients, or left out",
        source="text: the better of its two approximations",
    )
    delta: float = setting(
        0.001,
        "length of the difference",
        gt=0,
        only={"gradients": "hessian_free"},
        source="our choice: small, but large enough for single precision",
    )
    minibatches: Literal["fresh", "same"] = setting(
        "fresh",
        "a minibatch for each gradient of a step, or one for all",
        source="text: independent ones",
    )
    adapt: int = setting(
        1,
        "how many of the last rounds are steps of all clients from the shared model",
        ge=0,
        source="text: models are tested after one step",
    )
    averaging: Literal["size", "uniform"] = AVERAGING

    def change(self, draft: Draft) -> Draft:
        """Wrap FedAvg, and add the stage."""

        def base(d: Draft) -> PerFedAvg:
            same = self.minibatches == "same"
            return PerFedAvg(fedavg(d), self.alpha, self.gradients, self.delta, same)

        draft = replace(draft, base=base)
        if self.adapt:
            draft = replace(draft, after=After(self._adapted, self.adapt, "model"))
        return replace(draft, mean=Uniform()) if self.averaging == "uniform" else draft

    def objection(self, draft: Draft) -> str:
        """The stage needs one server and a round."""
        if self.adapt and Trait.MANY_SERVERS in draft.topology.traits:
            return (
                "method 'per_fedavg' ends with steps from a model that all clients share; "
                "set topology.name = 'star' or adapt = 0."
            )
        return no_round_left(self.adapt, draft, "per_fedavg", "adapt") if self.adapt else ""

    def _adapted(self, draft: Draft) -> Draft:
        own = alone(draft, 1.0, None)
        return replace(own, opt=Sgd(self.alpha), batch_size=WHOLE, decay=Decay())
