"""FedAvg's server for clients that keep a second model besides the one they send.

The second model is a whole one and starts like the shared one; each method decides how to train it,
and whether clients are tested with it.
"""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx, Wrapper
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedavg import Down, FedAvg, Up
from unalike.batches import Batches
from unalike.rng import Key
from unalike.tree import Params


class Beside(Wrapper):
    """The shared model is FedAvg's."""

    base: FedAvg

    def client_init(self, w: Params, key: Key) -> Any:
        """The initial model."""
        return self.base.first(w, self.task.weights(w))

    def handed(self, w: Params) -> Any:
        """All of it."""
        return w

    def as_fedavg(
        self, down: Down, state: Any, data: Batches, ctx: Ctx, start: Params | None
    ) -> tuple[Up, Params, Any]:
        """FedAvg's local training and no more: (what is sent, where it ended, its optimizer).

        For settings at which a method is FedAvg: steps with zeros in them are rounded differently.
        """
        w = down.x if start is None else start
        end = self.base.descent(w, *self.base.objective(down, {}), data, ctx, state)
        w = {**end.theta, **end.buffers}
        return Up(tree.sub(w, down.x)), w, end.opt

    def received(self, down: Down, mine: Any) -> Params:
        """The shared model."""
        return down.x


@dataclass(frozen=True)
class AtRest(Wrapper):
    """A method whose clients do what FedAvg's do, and leave their second model as it began."""

    base: Beside

    def client_init(self, w: Params, key: Key) -> Any:
        """The second model; an optimizer that is kept is that of the shared one alone."""
        fedavg = self.base.base
        return fedavg.first(fedavg.kept(self.base.client_init(w, key)).own, self.task.weights(w))

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """FedAvg's."""
        own, state = self.base.base.kept(mine)
        up, _, opt = self.base.as_fedavg(down, state, data, ctx, start)
        return up, {}, self.base.base.keep(own, opt)


def at_rest(draft: Draft) -> Draft:
    """For settings at which the second model neither moves nor acts on the shared one."""

    def base(d: Draft) -> AtRest:
        made = draft.base(d)
        assert isinstance(made, Beside), "another method has no second model"
        return AtRest(made)

    return replace(draft, base=base)
