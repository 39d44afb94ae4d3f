"""Local fine-tuning after any method: every client continues alone with the model it has.

rounds 0 .. T-k-1     the method
rounds T-k .. T-1     w_k <- the model that client k is judged by, once: x, or (x, its private
                      layers), or a model of its own; then w_k <- w_k - eta grad F_k(w_k), all
                      layers together; nothing is sent any more

The last k rounds are a stage in which all clients take part, whatever the participation was. Each
is judged like any other, so that a record has the curve from the method's models to the tuned ones;
what is shared stays as it was, for data of no known client.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.draft import After, Draft
from unalike.algorithms.fedavg import FedAvg, Up
from unalike.algorithms.method import Method, Slot
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.descent import Loss, descend
from unalike.parts.optim import Optimizer, Sgd, at_rate
from unalike.recipe import Decay
from unalike.rng import Key
from unalike.settings import setting
from unalike.tasks import Task
from unalike.traits import Trait
from unalike.tree import Params
from unalike.uploads import Uploads


class Model(NamedTuple):
    """The shared layers on the server, and none of them in a download."""

    x: Params


@dataclass(frozen=True)
class Alone(Stateless):
    """Clients got what is shared when the stage began; from then on nothing travels."""

    task: Task
    opt: Optimizer = Sgd(0.1)

    def server_init(self, w: Params, key: Key) -> Model:
        """What is shared, which stays as it is."""
        return Model(w)

    def client_init(self, w: Params, key: Key) -> Params:
        """A whole model."""
        return w

    def handed(self, w: Params) -> Params:
        """All of it."""
        return w

    def broadcast(self, server: Model) -> Model:
        """Nothing."""
        return Model({})

    def client(
        self, down: Model, mine: Params, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Params]:
        """Descend from where it was."""
        w = self.task.split(mine)
        end = descend(Loss(self.task), self.opt, *w, data, ctx.rate)
        return Up({}), {}, {**end.theta, **end.buffers}

    def upload_like(self, down: Model) -> Up:
        """Nothing."""
        return Up({})

    def server(self, server: Model, ups: Uploads, p: Tensor, cohort: Cohort) -> Model:
        """No change."""
        return server

    def personal(self, down: Model, mine: Params) -> Params:
        """Its own."""
        return mine

    def model(self, server: Any, key: Key) -> Params | None:
        """The shared model, if that is all of it."""
        return FedAvg(self.task).model(server, key)


class FineTune(Method):
    """In the last rounds every client continues alone with the model it has."""

    slot: ClassVar[Slot] = "last rounds"
    refuses = {
        Trait.SENDS_NO_MODEL: "there is no shared model that clients could continue with",
        Trait.MANY_SERVERS: "all clients continue with what one server has",
    }
    paper: ClassVar[str] = "Wang et al. 2019, arXiv 1910.10252"

    rounds: int = setting(
        1,
        "how many of the last rounds",
        ge=1,
        source="our choice: one, so that the shared model gets nearly all of them",
    )
    epochs: float | None = setting(
        None,
        "epochs in each of them; unset: local.epochs",
        gt=0,
        source="our choice: as before",
    )
    lr: float | None = setting(
        None,
        "learning rate in them, without decay; unset: local.lr with its decay",
        gt=0,
        source="our choice: as before",
    )

    def change(self, draft: Draft) -> Draft:
        """Add the stage."""
        return replace(draft, after=After(self._alone, self.rounds))

    def objection(self, draft: Draft) -> str:
        """The method must have a round left."""
        return no_round_left(self.rounds, draft, "finetune", "rounds")

    def _alone(self, draft: Draft) -> Draft:
        return alone(draft, self.epochs, self.lr)


def alone(draft: Draft, epochs: float | None, lr: float | None) -> Draft:
    """Every client's own training with the same task and optimizer, without communication."""
    return Draft(
        draft.task,
        draft.n_clients,
        draft.classes,
        draft.shape,
        draft.rounds,
        at_rate(draft.opt, lr),
        draft.epochs if epochs is None else epochs,
        draft.batch_size,
        draft.decay if lr is None else Decay(),
        topology=draft.topology,
        base=_alone,
        transform=draft.transform,
        fits=draft.fits,
    )


def _alone(draft: Draft) -> Alone:
    return Alone(draft.task, draft.opt)


def no_round_left(rounds: int, draft: Draft, name: str, setting: str) -> str:
    """Why a stage at the end cannot have so many rounds, as a sentence; empty if it can."""
    if rounds < draft.rounds:
        return ""
    return (
        f"method.{setting} of '{name}' is {rounds} of {draft.rounds} rounds, which leaves none "
        "for the shared model; lower it or raise rounds."
    )
