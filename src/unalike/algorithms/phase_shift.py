"""Phase-shift: clients out of phase; one in mid-phase corrects its drift and continues.

position 0:       w_k <- w
position 1..n-1:  w_k <- (N w + n_k w_k) / (N + n_k)            (drift correction)
all train; position n-1 uploads;   N <- sum n_k,  w <- sum n_k w_k / N
in the last round everybody uploads
between uploads w comes from one group; the mean of all clients' current models can be tested,
sum_k n_k w_k / sum_k n_k over every client that trained, which nobody sends

Downloads stay, uploads fall to one n-th; groups of clients are drawn, and some have one more where
n does not divide their number. At equal rounds (n + 1) / (2n) of the messages are sent
(eq. 4.2); or T (n + 1) / (2n) local epochs take 2n / (n + 1) times the rounds at equal messages
(eq. 4.3); or anything in between, T (1 - s (n - 1) / (2n)) epochs for s from 0 to 1. The schedule
``Phased`` deals the positions; this wrapper is the client's side of them, around any method that
sends a model: w_k is what that method shares.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithm import Algorithm, Ctx, Nested
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedavg import Kept
from unalike.algorithms.method import Method, Slot
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.reach import UNMEASURED, Unmeasured
from unalike.parts.schedule import too_many
from unalike.rng import Key
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Params, Tree
from unalike.uploads import Uploads


class Counted(NamedTuple):
    """What the wrapped method's server holds, or sends, and the examples behind its model."""

    base: Any
    n: Tensor

    @property
    def x(self) -> Params:
        """The shared model."""
        return self.base.x


class Mine(NamedTuple):
    """A client's model in mid-phase, what it has not sent yet, and what the method keeps."""

    w: Params
    unsent: Tree
    base: Any
    gone: Any  # how far its local steps have gone, if needed


@dataclass(frozen=True)
class PhaseShift(Nested):
    """Any method that sends a model, with drift correction in mid-phase."""

    base: Algorithm
    eval_model: Literal["central", "virtual_mean"] = "central"
    reach: Unmeasured = UNMEASURED  # how far local steps go

    def server_init(self, w: Params, key: Key) -> Counted:
        """No examples are behind the first model."""
        return Counted(self.base.server_init(w, key), torch.zeros(()))

    def client_init(self, w: Params, key: Key) -> Mine:
        """The initial model, and nothing to send."""
        down = self.base.broadcast(self.base.server_init(w, key))
        unsent = tree.zeros(self.base.upload_like(down)._replace(delta={}))
        return Mine(down.x, unsent, self.base.client_init(w, key), self.reach.begin(w))

    def broadcast(self, server: Counted) -> Counted:
        """The wrapped method's download and the number of examples behind it."""
        return Counted(self.base.broadcast(server.base), server.n)

    def client(
        self, down: Counted, mine: Mine, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Any, dict[str, Tensor], Mine]:
        """Reset or correct, then train."""
        kept = ctx.examples / (down.n + ctx.examples) * (ctx.role > 0)
        begin = tree.lerp(down.x if start is None else start, mine.w, kept)
        own = mine.base
        if isinstance(own, Kept):  # the optimizer continues through a correction, not a reset
            own = own._replace(opt=tree.where(kept > 0, own.opt, tree.zeros(own.opt)))
        up, stats, own = self.base.client(down.base, own, data, ctx, begin)
        # A model's change counts from this download; all others add up until they are sent.
        rest = tree.add(up._replace(delta={}), mine.unsent)
        unsent = tree.where(ctx.reply, tree.zeros(rest), rest)
        w, stats = tree.add(down.x, up.delta), {"steps": data.steps.float(), **stats}
        stats, gone = self.reach.after(mine.gone, kept, stats, ctx.rate)
        return rest._replace(delta=up.delta), stats, Mine(w, unsent, own, gone)

    def server(self, server: Counted, ups: Uploads, p: Tensor, cohort: Cohort) -> Counted:
        """The wrapped method's step on those that answered."""
        base = self.base.server(server.base, ups, p, cohort)
        return Counted(base, cohort.stats["examples"].sum())

    def flying(self, mine: Mine) -> Params | None:
        """A client's model, if the mean of all current models is tested."""
        return mine.w if self.eval_model == "virtual_mean" else None

    def landed(self, server: Counted, mean: Params) -> Counted:
        """The server as if all clients had uploaded."""
        return server._replace(base=self.base.landed(server.base, mean))


class PhaseShiftMethod(Method):
    """Groups of clients upload in turn and correct their drift in between: fewer uploads."""

    slot: ClassVar[Slot] = "schedule"
    traits = frozenset({Trait.SEVERAL_ROUNDS_IN_UPLOAD})
    refuses = {
        Trait.SENDS_NO_MODEL: "there is no model whose drift a client could correct",
        Trait.MANY_SERVERS: "one server must know the examples behind the newest model",
    }
    paper: ClassVar[str] = "Phase-shift communication, one group uploads per round"

    phases: int = setting(
        2,
        "number of groups n; uploads fall to 1/n",
        ge=1,
        source="text: the combined run has two",
    )
    epoch_reduction: float = setting(
        0.0,
        "0: the same epochs, fewer messages; 1: (n + 1) / (2n) of the epochs at equal messages",
        ge=0,
        le=1,
        source="text, section 4.2.1: the experiments reduce communication",
    )
    optimizer: Literal["keep", "reset"] = setting(
        "keep",
        "momentum through drift corrections",
        source="our choice, as in FLTK's code; the text does not say",
    )
    eval_model: Literal["central", "virtual_mean"] = setting(
        "central",
        "what is tested: the server's model, or the mean of all clients' current models",
        source="our choice: the model that a user would get",
    )

    def change(self, draft: Draft) -> Draft:
        """Wrap whatever there is and take over the schedule."""
        keep = self.optimizer == "keep"
        wraps = (*draft.wraps, lambda base, d: PhaseShift(base, self.eval_model, d.reach(d)))
        epochs = draft.epochs * (1 - self.epoch_reduction * (self.phases - 1) / (2 * self.phases))
        return replace(draft, phases=self.phases, epochs=epochs, keep_optimizer=keep, wraps=wraps)

    def objection(self, draft: Draft) -> str:
        """Every group needs a client, and no client may be invited in vain."""
        if draft.participation.extra:
            return "method 'phase_shift' waits for a whole group; leave participation.extra out."
        return too_many(self.phases, draft.participation.count(draft.n_clients))
