"""MOON (Li, He, Song 2021, Alg. 1): local representations stay near those of the shared model.

minimise F_k(w) + mu l(w);   z, z_g, z_p are the representations by w, by the received model and by
the one that the client ended its last round with
l = -log( exp(cos(z, z_g) / tau) / (exp(cos(z, z_g) / tau) + exp(cos(z, z_p) / tau)) )      (eq. 3)

A representation is what goes into the network's head. The last model of a client that never trained
is the initial one. mu = 0 is FedAvg, and so is the first round, where z_g and z_p are one.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx
from unalike.algorithms.beside import Beside
from unalike.algorithms.draft import Draft, fedavg
from unalike.algorithms.fedavg import Down, FedAvg, Up
from unalike.algorithms.method import Method, Slot, headless
from unalike.batches import Batch, Batches
from unalike.network import Network
from unalike.parts.descent import Objective, descend
from unalike.parts.representation.cut import inner, tapped
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Params


@dataclass(frozen=True)
class Contrast:
    """FedAvg's objective and the contrast; given are both models, and what the objective reads."""

    objective: Objective
    tap: Network
    mu: float
    temperature: float
    passes: ClassVar[int] = 2  # it goes over a minibatch for the loss, and for the representation

    def __call__(
        self, theta: Params, buffers: Params, batch: Batch, given: tuple[Params, Params, Any]
    ) -> tuple[Tensor, Params]:
        """Their sum on the minibatch; the pass for the representation makes the same draws."""
        w, (received, last, more) = {**theta, **buffers}, given
        loss, buffers = self.objective(theta, buffers, batch, more)
        (_, z), _ = self.tap.train(inner(w), batch.x, batch.key, batch.real)
        near, far = (cosines(z, self._seen(other, batch)) for other in (received, last))
        each = F.softplus((far - near) / self.temperature)
        mean = (each * batch.real).sum() / batch.real.sum().clamp(min=1)
        return loss + self.mu * mean, buffers

    def _seen(self, w: Params, batch: Batch) -> Tensor:
        """Representations by a model that does not train."""
        z: Tensor
        _, z = self.tap.eval(inner(w), batch.x, batch.real)
        return z


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """The cosine between each two rows; a row of zeros is at right angles to all others."""
    a, b = a.flatten(1), b.flatten(1)
    lengths = (a.square().sum(1) * b.square().sum(1)).clamp(min=1e-16).sqrt()
    return (a * b).sum(1) / lengths


@dataclass(frozen=True)
class Moon(Beside):
    """FedAvg for clients that remember their last model; they are tested with the shared one."""

    base: FedAvg
    tap: Network
    mu: float = 1.0
    temperature: float = 0.5

    @property
    def personal_models(self) -> bool:
        """The last model is for training only."""
        return False

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """Descend on both losses; remember where that ended."""
        last, state = self.base.kept(mine)
        w = self.task.split(down.x if start is None else start)
        objective, more = self.base.objective(down, {})
        if self.mu:
            objective = Contrast(objective, self.tap, self.mu, self.temperature)
            more = down.x, last, more
        end = descend(objective, self.base.opt, *w, data, ctx.rate, more, state=state)
        own = {**end.theta, **end.buffers}
        return Up(tree.sub(own, down.x)), {}, self.base.keep(own, end.opt)

    def personal(self, down: Down, mine: Any) -> Params:
        """The shared model."""
        return down.x


class MoonMethod(Method):
    """Local representations move towards the shared model's, away from the client's last ones."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.FEDAVG_SERVER, Trait.FEDAVG_OBJECTIVE})
    paper: ClassVar[str] = "Li et al. 2021, arXiv 2103.16257"

    mu: float = setting(
        1.0,
        "weight of the contrast; 0 is FedAvg",
        ge=0,
        source="text: the best on two of three datasets; it tries 0.1, 1, 5 and 10",
    )
    temperature: float = setting(0.5, "temperature tau", gt=0, source="text")

    def change(self, draft: Draft) -> Draft:
        """Wrap FedAvg."""

        def base(d: Draft) -> Moon:
            tap = tapped(d.task.network, d.task.network.head)
            return Moon(fedavg(d), tap, self.mu, self.temperature)

        return replace(draft, base=base) if not self.objection(draft) else draft

    def objection(self, draft: Draft) -> str:
        """There must be a representation that goes into a head."""
        return headless(draft, "moon")
