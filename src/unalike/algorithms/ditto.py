"""Ditto (Li et al. 2021, Alg. 1): a personal model near the shared one, beside any method.

w by the wrapped method;   v_k <- v_k - eta (grad F_k(v_k) + lambda (v_k - x))       (line 10)

x is the model that the client received, before local training moved it; v_k stays on the client,
which is tested with it. Both pass over the same minibatches, as in the authors' code, and the
server learns nothing of v_k: the shared model is the wrapped method's to the last bit. lambda = 0
is training alone.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike.algorithm import Algorithm, Ctx, Wrapper
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedprox import Proximal
from unalike.algorithms.method import Method, Slot
from unalike.batches import Batches
from unalike.parts.descent import descend, penalised
from unalike.parts.optim import Optimizer, Sgd, at_rate
from unalike.rng import Key
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Params


class Mine(NamedTuple):
    """A client's own model with its running statistics, and what the wrapped method keeps."""

    v: Params
    base: Any


@dataclass(frozen=True)
class Ditto(Wrapper):
    """Any method that sends a model, and a second model that stays."""

    base: Algorithm
    opt: Optimizer = Sgd(0.1)
    pull: float = 1.0
    epochs: int | None = None  # the first of the round's epochs; None: all

    def client_init(self, w: Params, key: Key) -> Mine:
        """The initial model."""
        return Mine(w, self.base.client_init(w, key))

    def handed(self, w: Params) -> Params:
        """All of it, whatever the wrapped method's clients keep of it besides."""
        return w

    def client(
        self, down: Any, mine: Mine, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Any, dict[str, Tensor], Mine]:
        """The wrapped method's round, then the client's own model, pulled to the received one."""
        received = self.base.received(down, mine.base)
        assert received is not None, "methods that send no model are refused"
        up, stats, base = self.base.client(down, mine.base, data, ctx, start)
        some = data if self.epochs is None else data.epochs(0, self.epochs)
        pull = torch.full_like(ctx.rate, self.pull)
        near = self.task.weights(received)
        objective, given = penalised(self.task, Proximal(self.pull), pull, near)
        end = descend(objective, self.opt, *self.task.split(mine.v), some, ctx.rate, given)
        return up, stats, Mine({**end.theta, **end.buffers}, base)

    def personal(self, down: Any, mine: Mine) -> Params:
        """The client's own model."""
        return mine.v

    def received(self, down: Any, mine: Mine) -> Params | None:
        """As the wrapped method."""
        return self.base.received(down, mine.base)

    def flying(self, mine: Mine) -> Params | None:
        """As the wrapped method."""
        return self.base.flying(mine.base)


class DittoMethod(Method):
    """A second model on every client, pulled towards the shared model of the wrapped method."""

    slot: ClassVar[Slot] = "personal model"
    refuses = {
        Trait.SENDS_NO_MODEL: "there is no shared model to pull a client's own model towards"
    }
    paper: ClassVar[str] = "Li et al. 2021, arXiv 2012.04221"

    pull: float = setting(
        1.0,
        "strength of the pull towards the shared model (lambda); 0 is training alone",
        ge=0,
        source="text: the default of its experiments, and the one that SuPerFed's authors take",
    )
    epochs: int | None = setting(
        None,
        "how many of the round's epochs the client's own model trains; unset: all of them",
        ge=1,
        source="authors' code: both models go over the same minibatches",
    )
    lr: float | None = setting(
        None,
        "learning rate of the client's own model; unset: local.lr",
        gt=0,
        source="our choice: as the shared model",
    )

    def change(self, draft: Draft) -> Draft:
        """Go around everything."""
        return replace(draft, personal=self._wrap)

    def objection(self, draft: Draft) -> str:
        """The own model cannot train longer than the round does."""
        return too_long(self.epochs, draft, "ditto")

    def _wrap(self, base: Algorithm, draft: Draft) -> Ditto:
        return Ditto(base, at_rate(draft.opt, self.lr), self.pull, self.epochs)


def too_long(epochs: int | None, draft: Draft, name: str) -> str:
    """Why some of a round's epochs cannot be taken, as a sentence; empty if they can."""
    if epochs is None or epochs < draft.epochs + 1:
        return ""
    return (
        f"method '{name}' would train for {epochs} epochs of a round, but local.epochs is "
        f"{draft.epochs:g}; lower its epochs or raise local.epochs."
    )
