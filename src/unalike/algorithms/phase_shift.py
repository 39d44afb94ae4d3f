"""Phase-shift: clients out of phase; one in mid-phase corrects its drift and goes on.

position 0:       w_k <- w
position 1..n-1:  w_k <- (N w + n_k w_k) / (N + n_k)            (drift correction)
all train; position n-1 uploads;   N <- sum n_k,  w <- sum n_k w_k / N
in the last round everybody uploads
between uploads w stems from one group; judged instead may be the mean of all models in flight,
sum_k n_k w_k / sum_k n_k over every client that trained, which nobody sends

Downloads stay, uploads fall to one n-th. The schedule ``Phased`` deals the positions; this wrapper
is the client's side of them, around FedAvg with whatever parts it has.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithm import Algorithm, Ctx, Wrapper
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedavg import FedAvg, Server, Up
from unalike.algorithms.method import Method, Slot
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.local import descend
from unalike.parts.objective import Nothing
from unalike.rng import Key
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Params
from unalike.uploads import Uploads


class Counted(NamedTuple):
    """The shared model, the examples behind it, and the wrapped method's state."""

    x: Params
    n: Tensor
    base: Server


class Received(NamedTuple):
    """What a client receives: the wrapped method's download and the examples behind it."""

    x: Params
    n: Tensor
    coefficient: Any


class Mine(NamedTuple):
    """A client's model and optimizer in mid-phase."""

    w: Params
    opt: Any


@dataclass(frozen=True)
class PhaseShift(Wrapper):
    """FedAvg with drift correction in mid-phase."""

    base: FedAvg
    optimizer: Literal["keep", "reset"] = "keep"  # momentum through corrections
    eval_model: Literal["central", "virtual_mean"] = "central"
    personal_models: ClassVar[bool] = False

    @property
    def in_flight(self) -> bool:
        """If the virtual mean is judged."""
        return self.eval_model == "virtual_mean"

    def server_init(self, w: Params, key: Key) -> Counted:
        """No examples are behind the first model."""
        return Counted(w, torch.zeros(()), self.base.server_init(w, key))

    def client_init(self, w: Params, key: Key) -> Mine:
        """The initial model."""
        return Mine(w, self.base.opt.init(self.task.weights(w)))

    def broadcast(self, server: Counted) -> Received:
        """The model and the number of examples behind it."""
        return Received(server.x, server.n, self.base.broadcast(server.base).coefficient)

    def client(
        self, down: Received, mine: Mine, data: Batches, ctx: Ctx
    ) -> tuple[Up, dict[str, Tensor], Mine]:
        """Reset or correct, then train."""
        later = ctx.role > 0
        kept = ctx.examples / (down.n + ctx.examples) * later
        start = tree.lerp(down.x, mine.w, kept)
        fresh = self.base.opt.init(self.task.weights(start))
        keep = later if self.optimizer == "keep" else torch.zeros_like(later)
        state = tree.where(keep, mine.opt, fresh)
        anchor, term = self.task.weights(down.x), self.base.term
        end = descend(
            self.task,
            start,
            data,
            self.base.opt,
            ctx.rate,
            term=None if isinstance(term, Nothing) else lambda w: term(down.coefficient, w, anchor),
            state=state,
        )
        return Up(tree.sub(end.w, down.x)), {"steps": end.steps}, Mine(end.w, end.opt)

    def server(self, server: Counted, ups: Uploads, p: Tensor, cohort: Cohort) -> Counted:
        """The wrapped method's step on those that answered."""
        base = self.base.server(server.base._replace(x=server.x), ups, p, cohort)
        return Counted(base.x, cohort.stats["examples"].sum(), base)

    def personal(self, down: Received, mine: Mine) -> Params:
        """The central model."""
        return down.x

    def model(self, server: Counted, key: Key) -> Params | None:
        """The central model."""
        return server.x

    def flying(self, mine: Mine) -> Params:
        """A client's model in mid-phase."""
        return mine.w

    def landed(self, server: Counted, mean: Params) -> Counted:
        """The server with the mean that a collection after this round would give."""
        return server._replace(x=mean)


class PhaseShiftMethod(Method):
    """Groups of clients upload in turn and correct their drift in between: fewer uploads."""

    slot: ClassVar[Slot] = "schedule"
    traits = frozenset({Trait.SEVERAL_ROUNDS_IN_UPLOAD})
    refuses = {
        Trait.SENDS_NO_MODEL: "there is no model whose drift a client in mid-phase could correct",
        Trait.MANY_SERVERS: "one server must know the examples behind the newest model",
    }
    paper: ClassVar[str] = "Phase-shift communication, one group uploads per round"

    phases: int = setting(
        2,
        "number of groups n; uploads fall to 1/n",
        ge=1,
        source="text: the combined run has two; fewer are none",
    )
    optimizer: Literal["keep", "reset"] = setting(
        "keep",
        "momentum through drift corrections",
        source="our choice, as FLTK's code does; the text is silent",
    )
    eval_model: Literal["central", "virtual_mean"] = setting(
        "central",
        "what is judged: the server's model, or all in flight",
        source="our choice: the model that a user would get",
    )

    def change(self, draft: Draft) -> Draft:
        """Wrap whatever there is and take over the schedule."""
        return replace(draft, phases=self.phases, wraps=(*draft.wraps, self._wrap))

    def objection(self, draft: Draft) -> str:
        """Groups must be equal."""
        active = draft.participation.count(draft.n_clients)
        if active % self.phases == 0:
            return ""
        return (
            f"phases = {self.phases} must divide the {active} active clients; "
            "change phases or the participation."
        )

    def _wrap(self, base: Algorithm, draft: Draft) -> PhaseShift:
        return PhaseShift(cast(FedAvg, base), self.optimizer, self.eval_model)
