"""SCAFFOLD (Karimireddy et al. 2020, Alg. 1): control variates against client drift.

y <- x;  K times: y <- y - eta_l (g_i(y) - c_i + c)                (lines 7-10)
c_i+ <- c_i - c + (x - y) / (K eta_l)          option II           (line 12)
x <- x + eta_g sum_i p_i (y_i - x)                                 (line 16; there p_i = 1 / |S|)
c <- c + sum_i pi_i (c_i+ - c_i),  pi_i of all clients             (line 17; there pi_i = 1 / N)

pi_i is what client i counts among all, so that c stays sum_i pi_i c_i and the model comes to rest
where sum_i pi_i grad F_i = 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.method import Draft, Method, Slot, plain_sgd
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.descent import Loss, descend
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.optim import Sgd
from unalike.rng import Key
from unalike.task import Task
from unalike.tree import Params
from unalike.uploads import Uploads


class Server(NamedTuple):
    """The model and the server's control variate, which covers the trainable weights only."""

    x: Params
    c: Params


class Up(NamedTuple):
    """The change of the model and of this client's control variate."""

    delta: Params
    dc: Params


@dataclass(frozen=True)
class Scaffold(Stateless):
    """Two vectors each way; every client keeps its own control variate."""

    task: Task
    n_clients: int
    lr: float = 0.1
    weight_decay: float = 0.0
    server_lr: float = 1.0

    def server_init(self, w: Params, key: Key) -> Server:
        """A zero control variate."""
        return Server(w, tree.zeros(self.task.weights(w)))

    def client_init(self, w: Params, key: Key) -> Params:
        """A zero control variate."""
        return tree.zeros(self.task.weights(w))

    def client(
        self, down: Server, mine: Params, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Params]:
        """Corrected local steps, then the new control variate by option II."""
        x, c, c_i = down.x, down.c, mine
        sgd, loss = Sgd(self.lr, weight_decay=self.weight_decay), Loss(self.task)
        y, buffers = self.task.split(x if start is None else start)
        end = descend(loss, sgd, y, buffers, data, ctx.rate, shift=tree.sub(c, c_i))
        K, eta = data.steps, self.lr * ctx.rate
        dc = tree.map(lambda c, dy: -c - dy / (K * eta), c, tree.sub(end.theta, y))
        delta = tree.sub({**end.theta, **end.buffers}, x)
        return Up(delta, dc), {}, tree.add(c_i, dc)

    def upload_like(self, down: Server) -> Up:
        """Two vectors, as in a download."""
        return Up(down.x, down.c)

    def server(self, server: Server, ups: Uploads, p: Tensor, cohort: Cohort) -> Server:
        """Step along the mean change; the variate moves by what the cohort counts among all."""
        mean, total = ups.mean(p, lambda up: up.delta), p.sum()
        weights, buffers = self.task.split(server.x)
        x = {k: w + self.server_lr * mean[k] for k, w in weights.items()}
        x |= {k: b + mean[k] / total.to(b.dtype) for k, b in buffers.items()}
        pi = torch.full_like(p, 1 / self.n_clients)
        if cohort.standing is not None:
            pi = cohort.standing.to(p)
        return Server(x, tree.add(server.c, ups.mean(pi, lambda up: up.dc)))


class ScaffoldMethod(Method):
    """Control variates correct the drift of local steps; two vectors travel each way."""

    slot: ClassVar[Slot] = "algorithm"
    accepts: ClassVar[frozenset[str]] = frozenset({"weights", "data"})
    refuses: ClassVar[Mapping[str, str]] = {
        "defence": "the server's control variate must stay the mean of the clients' own",
        "privacy": "the server's control variate must stay the mean of the clients' own",
    }
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})
    paper: ClassVar[str] = "Karimireddy et al. 2020, arXiv 1910.06378"

    server_lr: float = Field(default=1.0, gt=0, description="server learning rate eta_g")
    averaging: Literal["uniform", "size"] = Field(
        default="uniform", description="line 16 as a plain mean (paper) or by examples"
    )

    def change(self, draft: Draft) -> Draft:
        """Replace the algorithm."""
        sgd = plain_sgd(draft, "scaffold")
        chosen = not isinstance(draft.mixing, ByExamples)  # another method set the weights
        return replace(
            draft,
            mixing=draft.mixing if chosen or self.averaging == "size" else Uniform(),
            make=lambda d: Scaffold(d.task, d.n_clients, sgd.lr, sgd.weight_decay, self.server_lr),
        )
