"""SuPerFed (Hahn et al. 2022, Alg. 1): the client trains the points between two models.

lambda ~ U(0, 1) per minibatch;   W = (1 - lambda) w_f + lambda w_l
minimise F(W) + mu/2 ||w_f - x||^2 + nu cos^2(w_f, w_l)               (eq. 3; both ends move)

MM, model mixing, draws one lambda for the whole model: W is on a line. LM, layer mixing, draws one
for every layer, whose weight and bias share it: W is in a box with the two models at its corners.

Before round ``start`` lambda = 0, w_l is frozen and the nu term is absent. w_f is the federated
end: it is downloaded and uploaded. w_l never leaves the client.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from unalike import rng, tree
from unalike.algorithm import Ctx
from unalike.algorithms.beside import Beside, at_rest
from unalike.algorithms.draft import Draft, fedavg
from unalike.algorithms.fedavg import Down, FedAvg, Up
from unalike.algorithms.method import Method, Slot
from unalike.batches import Batch, Batches
from unalike.parts.descent import descend
from unalike.parts.representation.cut import layers
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Params


class Ends(NamedTuple):
    """The trainable weights at both ends of the line."""

    f: Params
    l: Params


@dataclass(frozen=True)
class SuPerFed(Beside):
    """FedAvg's server around a client with a second, private model."""

    base: FedAvg
    start: int = 0  # the first round in which the two ends are mixed
    mu: float = 0.01
    nu: float = 1.0
    at: float = 0.5  # the point of the line that a client uses
    by_layer: bool = False  # whether every layer has its own lambda
    pull: Literal["square", "lengths"] = "square"  # of w_f - x; lengths of all leaves are summed

    def client_init(self, w: Params, key: rng.Key) -> Any:
        """A model of its own, independent of the global one: equal ends would be a dead point."""
        own = self.task.weights(self.task.init(key))
        return self.base.first(own, Ends(self.task.weights(w), own))

    def handed(self, w: Params) -> tuple[()]:
        """Nothing: a client draws its own model."""
        return ()

    def objective(
        self, ends: Ends, buffers: Params, batch: Batch, given: tuple[Params, Tensor]
    ) -> tuple[Tensor, Params]:
        """Equation 3 at a random point of the line, or at its federated end."""
        away, mixing = tree.sub(ends.f, given[0]), given[1]
        lam = self.mixed(rng.fold_in(batch.key, rng.Stream.METHOD), ends.f)
        w = tree.map(lambda f, l, u: tree.lerp(f, l, mixing * u), ends.f, ends.l, lam)
        loss, buffers = self.task.loss({**w, **buffers}, batch)
        near = tree.sqnorm(away) / 2 if self.pull == "square" else tree.norms(away)
        return loss + self.mu * near + mixing * self.nu * tree.cos2(ends.f, ends.l), buffers

    def mixed(self, key: rng.Key, like: Params) -> Params:
        """lambda for every leaf: the same everywhere, or the same within a layer."""
        places = layers(like) if self.by_layer else dict.fromkeys(like, 0)
        u = rng.uniform(key, len(set(places.values())))
        return {n: u[i] for n, i in places.items()}

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """Descend on both ends at once with one optimizer."""
        (own, state), opt = self.base.kept(mine), self.base.opt
        f, buffers = self.task.split(down.x if start is None else start)
        ends, mixing = Ends(f, own), (ctx.round >= self.start).float()
        given = self.task.weights(down.x), mixing
        end = descend(self.objective, opt, ends, buffers, data, ctx.rate, given, state=state)
        # While nothing is mixed the local end has no gradient, but weight decay may have moved it.
        own = tree.where(mixing > 0, end.theta.l, own)
        w_f = {**end.theta.f, **end.buffers}
        return Up(tree.sub(w_f, down.x)), {}, self.base.keep(own, end.opt)

    def far_end(self, down: Down, mine: Any) -> Params:
        """This client's own model."""
        return {**down.x, **self.base.kept(mine).own}

    def personal(self, down: Down, mine: Any) -> Params:
        """The point ``at`` of the line from the global model to this client's own."""
        point: Params = tree.lerp(down.x, self.far_end(down, mine), self.at)
        return point


class SuPerFedMM(Method):
    """Each client trains a line between the shared model and a second model of its own."""

    by_layer: ClassVar[bool] = False
    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.FEDAVG_SERVER, Trait.PULLS_ITSELF, Trait.OWN_MODELS})
    paper: ClassVar[str] = "Hahn et al. 2022, arXiv 2109.07628"

    start: float = setting(
        0.4,
        "share of rounds before mixing (L)",
        ge=0,
        le=1,
        source="authors' commands for 100 clients; the text gives none per dataset",
    )
    mu: float = setting(
        0.01,
        "pull of the federated end towards the download",
        ge=0,
        source="text and authors' commands",
    )
    pull: Literal["square", "lengths"] = setting(
        "square",
        "mu times half the squared distance from the download, or times the lengths of the "
        "changes of all leaves",
        source="text; the authors' code has the lengths",
    )
    nu: float = setting(
        1.0,
        "push of the two ends towards a right angle",
        ge=0,
        source="authors' commands; the text gives none per dataset",
    )
    at: float = setting(
        0.5,
        "point of the line that a client uses",
        ge=0,
        le=1,
        source="our choice: fixed beforehand; the authors take each client's best on its test rows",
    )

    def change(self, draft: Draft) -> Draft:
        """Wrap FedAvg."""
        plain = int(self.start * draft.rounds + 1e-9)  # rounds without mixing
        rest = self.among(SuPerFed, "start") | {"by_layer": self.by_layer}
        draft = replace(draft, base=lambda d: SuPerFed(fedavg(d), d.first + plain, **rest))
        return at_rest(draft) if plain == draft.rounds and not self.mu else draft

    def objection(self, draft: Draft) -> str:
        """Statistics of models in between belong to neither end."""
        why = (
            f"method 'superfed_{'lm' if self.by_layer else 'mm'}' trains random points between "
            "two models, whose running statistics fit no model that is tested; set run.buffers "
            "= 'drop', or choose a model without BatchNorm."
        )
        return why if draft.task.network.buffers else ""


class SuPerFedLM(SuPerFedMM):
    """SuPerFed-MM with a separate point between the two models for every layer."""

    by_layer: ClassVar[bool] = True

    start: float = setting(
        0.6,
        "share of rounds before mixing (L)",
        ge=0,
        le=1,
        source="authors' commands for 100 clients; the text gives none per dataset",
    )
    nu: float = setting(
        2.0,
        "push of the two ends towards a right angle",
        ge=0,
        source="authors' commands; the text gives none per dataset",
    )
