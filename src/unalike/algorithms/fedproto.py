"""FedProto (Tan et al. 2022, Alg. 1): clients agree on what a class looks like, and on no weights.

C_i^j = mean of the representations that client i makes of its examples of class j         (eq. 3)
C^j   = sum_i |D_ij| C_i^j / sum_i |D_ij|                                                  (eq. 6)
minimise F_i(w_i) + lambda sum_j ||C_i^j - C^j||,  C_i^j of the minibatch                  (eq. 7)

A representation is what goes into the network's head. Every client keeps a model of its own, and
only prototypes travel. lambda = 0 is training alone. With other weights p_i than by examples, C^j
is sum_i p_i s_ij C_i^j / sum_i p_i s_ij, where s_ij is the share of class j in client i's examples.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, cast

from torch import Tensor

from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.draft import Draft
from unalike.algorithms.generated import needs_classes
from unalike.algorithms.method import NO_MODEL_SENT, Method, Slot, headless
from unalike.batches import Batch, Batches
from unalike.cohort import Cohort
from unalike.network import Network
from unalike.parts.descent import Loss, Objective, descend
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Optimizer, Sgd
from unalike.parts.representation.cut import first_layer, inner, tapped, width
from unalike.parts.representation.prototypes import Prototypes, made
from unalike.rng import Key
from unalike.settings import setting
from unalike.tasks import MultiClass
from unalike.traits import Trait
from unalike.tree import Params
from unalike.uploads import Uploads

Pull = Literal["prototypes", "examples"]


class Up(NamedTuple):
    """A client's prototypes times the share that each class has in its examples, and the shares."""

    total: Tensor
    share: Tensor


@dataclass(frozen=True)
class Pulled:
    """The task's loss and the distance from the prototypes; given are those of the server."""

    task: MultiClass
    tap: Network
    strength: float
    pull: Pull
    passes: ClassVar[int] = 2  # it goes over a minibatch for the loss, and for the representation

    def __call__(
        self, theta: Params, buffers: Params, batch: Batch, given: Prototypes
    ) -> tuple[Tensor, Params]:
        """Their sum on the minibatch; the pass for the representation makes the same draws."""
        w = {**theta, **buffers}
        loss, buffers = self.task.loss(w, batch)
        (_, z), _ = self.tap.train(inner(w), batch.x, batch.key, batch.real)
        apart = given.beside_classes if self.pull == "prototypes" else given.beside_examples
        return loss + self.strength * apart(z.flatten(1), batch), buffers


@dataclass(frozen=True)
class FedProto(Stateless):
    """Models stay on the clients; prototypes are averaged class by class."""

    task: MultiClass
    tap: Network
    layer: str  # the first of the head
    shape: tuple[int, int]  # of all prototypes
    opt: Optimizer = Sgd(0.1)
    strength: float = 1.0
    pull: Pull = "prototypes"
    averaging: Literal["examples", "clients"] = "examples"
    judge: Literal["head", "prototypes"] = "head"

    @property
    def separable(self) -> bool:
        """A mean class by class."""
        return True

    def server_init(self, w: Params, key: Key) -> Prototypes:
        """No class is known."""
        x = next(iter(w.values())).new_zeros(self.shape)
        return Prototypes(x, x[:, 0].clone())

    def client_init(self, w: Params, key: Key) -> Params:
        """The initial model."""
        return w

    def handed(self, w: Params) -> Params:
        """All of it."""
        return w

    def client(
        self, down: Prototypes, mine: Params, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Params]:
        """Train the own model near the prototypes; send the ones that it makes then."""
        objective: Objective = Loss(self.task)
        if self.strength:
            objective = Pulled(self.task, self.tap, self.strength, self.pull)
        end = descend(objective, self.opt, *self.task.split(mine), data, ctx.rate, down)
        own = {**end.theta, **end.buffers}
        x, count = made(self.tap, own, data, down)
        by_clients = self.averaging == "clients"
        share = (count > 0).to(count) if by_clients else count / count.sum().clamp(min=1)
        return Up(share[:, None] * x, share), {}, own

    def upload_like(self, down: Prototypes) -> Up:
        """As many prototypes."""
        return Up(*down)

    def server(self, server: Prototypes, ups: Uploads, p: Tensor, cohort: Cohort) -> Prototypes:
        """The mean of each class over those that have it; a class that nobody has is unchanged."""
        return server.renewed(*ups.mean(p))

    def tells(self, servers: Prototypes) -> Up:
        """Prototypes times the examples behind them, and the number of these."""
        return Up(servers.mass[..., None] * servers.x, servers.mass)

    def hears(self, servers: Prototypes, means: Up) -> Prototypes:
        """The same mean over the neighbours."""
        return servers.renewed(*means)

    def personal(self, down: Prototypes, mine: Params) -> Params:
        """The own model, with its own head or with the nearest prototype in its place."""
        return mine if self.judge == "head" else {**mine, **down.head(self.layer)}

    def received(self, down: Prototypes, mine: Params) -> Params:
        """The own model."""
        return mine

    def model(self, server: Prototypes, key: Key) -> None:
        """Only the clients have models."""
        return


class FedProtoMethod(Method):
    """Clients share what each class looks like to them and keep their models."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.SENDS_NO_MODEL, Trait.OWN_MODELS})
    refuses = {
        k: v for k, v in NO_MODEL_SENT.items() if k is not Trait.WEIGHTS_FOLLOW_LOSSES
    }  # clients report the losses of their own models
    paper: ClassVar[str] = "Tan et al. 2022, arXiv 2105.00243"

    strength: float = setting(
        1.0,
        "weight of the distance from the prototypes (lambda); 0 is training alone",
        ge=0,
        source="authors' code; the text puts it into an appendix",
    )
    pull: Pull = setting(
        "examples",
        "distances of single examples, squared and averaged (authors' code), or of a minibatch's "
        "mean of each class, summed (text)",
        source="authors' code, whose strength of 1 belongs to it: with that strength the text's "
        "sum of plain distances makes representations collapse",
    )
    averaging: Literal["examples", "clients"] = setting(
        "examples",
        "a prototype is the mean by examples of the class (text), or the plain mean over the "
        "clients that have it (authors' code); another method's weights take precedence",
        source="text: eq. 6 without its second division by the number of clients, which would "
        "pull all prototypes to 0",
    )
    judge: Literal["head", "prototypes"] = setting(
        "head",
        "clients predict with the head they train, or by the nearest prototype",
        source="our choice: the head has probabilities; the text names the nearest prototype",
    )

    def change(self, draft: Draft) -> Draft:
        """Replace the algorithm."""
        mean = Uniform() if self.averaging == "clients" else draft.mean
        return replace(draft, mean=mean, base=self._make)

    def objection(self, draft: Draft) -> str:
        """There must be classes, and a representation that goes into a head of the right form."""
        if why := needs_classes(draft, "fedproto") or headless(draft, "fedproto"):
            return why
        made = self._make(draft)
        leaves = {k: v.shape for k, v in draft.task.network.given().items()}
        wanted = {f"{made.layer}.weight": made.shape, f"{made.layer}.bias": made.shape[:1]}
        head = {k: v for k, v in leaves.items() if k.startswith(draft.task.network.head)}
        if self.judge == "head" or head == wanted:
            return ""
        return (
            "method.judge = 'prototypes' replaces a head that is one linear layer with a bias by "
            "prototypes, and this model has no such head; set method.judge = 'head'."
        )

    def _make(self, draft: Draft) -> FedProto:
        network = draft.task.network
        tap = tapped(network, network.head)
        shape = draft.classes, width(tap, draft.shape)
        layer = first_layer(network, network.head)
        task, rest = cast(MultiClass, draft.task), self.among(FedProto)
        return FedProto(task, tap, layer, shape, draft.opt, **rest)
