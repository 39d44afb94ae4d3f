"""FedDyn (Acar et al. 2021, Alg. 1): a penalty that follows each client's gradients.

theta_k <- argmin F_k(theta) - <g_k, theta> + alpha/2 ||theta - x||^2      (local descent)
g_k <- g_k - alpha (theta_k - x)
h <- h - alpha sum_k pi_k (theta_k - x),  pi_k of all clients          (there pi_k = 1 / m)
x <- sum_k p_k theta_k - h / alpha                                     (there p_k = 1 / |P|)

The code keeps u_k = -g_k / alpha and s = -h / alpha, sums of changes, so that nothing is divided by
alpha. Always s = sum_k pi_k u_k, so the model converges to where sum_k pi_k grad F_k = 0.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedavg import Up
from unalike.algorithms.method import AVERAGING, OWN_MEAN, Method, Slot
from unalike.batches import Batch, Batches
from unalike.cohort import Cohort
from unalike.parts.descent import descend
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Optimizer, Sgd
from unalike.rng import Key
from unalike.settings import setting
from unalike.tasks import Task
from unalike.traits import Trait
from unalike.tree import Params
from unalike.uploads import Uploads


class Server(NamedTuple):
    """The model, and the sum of all mean changes of its weights."""

    x: Params
    s: Params


class Down(NamedTuple):
    """What a client receives."""

    x: Params


@dataclass(frozen=True)
class Dynamic:
    """F(theta) + alpha (<u, theta> + 1/2 ||theta - x||^2); given are u and x."""

    task: Task
    alpha: float

    def __call__(
        self, theta: Params, buffers: Params, batch: Batch, given: tuple[Params, Params]
    ) -> tuple[Tensor, Params]:
        """Its value on the minibatch."""
        u, x = given
        loss, buffers = self.task.loss({**theta, **buffers}, batch)
        near = 0.5 * tree.sqnorm(tree.sub(theta, x))
        return loss + self.alpha * (tree.dot(u, theta) + near), buffers


@dataclass(frozen=True)
class FedDyn(Stateless):
    """One vector each way; every client keeps the sum of its changes."""

    task: Task
    n_clients: int
    opt: Optimizer = Sgd(0.1)
    alpha: float = 0.01

    def server_init(self, w: Params, key: Key) -> Server:
        """Nothing has changed yet."""
        return Server(w, tree.zeros(self.task.weights(w)))

    def client_init(self, w: Params, key: Key) -> Params:
        """Nothing has changed yet."""
        zeros: Params = tree.zeros(self.task.weights(w))
        return zeros

    def broadcast(self, server: Server) -> Down:
        """The model."""
        return Down(server.x)

    def client(
        self, down: Down, mine: Params, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Params]:
        """Descend on the client's dynamic objective."""
        x = self.task.weights(down.x)
        w = self.task.split(down.x if start is None else start)
        end = descend(Dynamic(self.task, self.alpha), self.opt, *w, data, ctx.rate, (mine, x))
        delta = tree.sub({**end.theta, **end.buffers}, down.x)
        return Up(delta), {}, tree.add(mine, self.task.weights(delta))

    def upload_like(self, down: Down) -> Up:
        """The model."""
        return Up(down.x)

    def server(self, server: Server, ups: Uploads, p: Tensor, cohort: Cohort) -> Server:
        """The mean, and on top of it all mean changes so far; buffers are averaged."""
        mean, total = ups.mean(p).delta, p.sum()
        pi = cohort.among(self.n_clients, p)
        s = tree.add(server.s, self.task.weights(ups.mean(pi).delta))
        weights, buffers = self.task.split(server.x)
        x = {k: w + mean[k] + s[k] for k, w in weights.items()}
        x |= {k: b + mean[k] / total.to(b.dtype) for k, b in buffers.items()}
        return Server(x, s)


class FedDynMethod(Method):
    """A penalty on every client that makes all clients' optima agree with the global one."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.PULLS_ITSELF})
    refuses = {
        **OWN_MEAN,
        **dict.fromkeys(
            (Trait.SENDS_SOME_ENTRIES, Trait.WRITES_FEW_BITS), OWN_MEAN[Trait.ALTERS_UPLOADS]
        ),
        Trait.SEVERAL_ROUNDS_IN_UPLOAD: "the server must learn of every change of a client's "
        "penalty in the round it happens",
        Trait.MANY_SERVERS: "each server would need the mean of all clients' changes but only "
        "hears its own clients",
    }
    paper: ClassVar[str] = "Acar et al. 2021, arXiv 2111.04263"

    alpha: float = setting(
        0.01,
        "strength of the penalty",
        gt=0,
        source="text: the one of most of its experiments, which try 0.1, 0.01 and 0.001",
    )
    averaging: Literal["size", "uniform"] = AVERAGING

    def change(self, draft: Draft) -> Draft:
        """Replace the algorithm."""
        mean = Uniform() if self.averaging == "uniform" else draft.mean
        return replace(draft, mean=mean, base=self._make)

    def _make(self, draft: Draft) -> FedDyn:
        return FedDyn(draft.task, draft.n_clients, draft.opt, self.alpha)
