"""Clients of a mediator train one after the other, each starting from the previous one's model.

For each of them the server uses the update of the whole chain: with weights that add up to the
mediator's, that is one update of one mediator.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from unalike import tree
from unalike.channel import Channel
from unalike.engine.server.gather import Held
from unalike.engine.server.guard import Guard
from unalike.parts.participation.mediators import Mediated
from unalike.parts.participation.schedule import Plan
from unalike.tree import Tree
from unalike.uploads import Uploads


class Relayed(Held):
    """All uploads, and how far each mediator's clients have come together."""

    def __init__(
        self, members: Channel, plan: Plan, schedule: Mediated, guard: Guard, scale: float, x: Tree
    ) -> None:
        """Nobody has trained; ``x`` is the model they begin with, ``scale`` its length."""
        super().__init__(members, plan.ids[plan.reply])
        self.plan, self.guard, self.scale = plan, guard, scale
        self.group, self.turn = schedule.mediator(plan.role), schedule.turn(plan.role)
        self.count = int(self.group.max()) + 1
        # The sum of the changes of each mediator's clients so far.
        self.way = tree.map(lambda v: v.new_zeros((self.count, *v.shape)), x)

    def _keep(self, ids: Tensor, ups: Tree, norm: Tensor, numbers: dict[str, Tensor]) -> None:
        """A broken update is held for the guard, and not handed on."""
        super()._keep(ids, ups, norm, numbers)
        usable = self.guard.usable(torch.cat(self.norms), self.scale)[-len(ids) :]
        group, new = self._of(ids)[usable], tree.row(ups.delta, usable)
        self.way = tree.map(lambda v, d: v.index_add(0, group.to(v.device), d), self.way, new)

    def _of(self, ids: Tensor) -> Tensor:
        return self.group[torch.searchsorted(self.plan.ids, ids)]

    def legs(self, downs: Tree, home: Tensor) -> Iterator[tuple[Plan, Tree, Tensor]]:
        """(who trains next, the downloads, which of them each gets), once the last were taken."""
        yield self._those(0), downs, home
        down = tree.map(lambda v: v.expand(self.count, *v.shape[1:]), downs)
        for turn in range(1, int(self.turn.max()) + 1):
            part, now = self._those(turn), down._replace(x=tree.add(down.x, self.way))
            yield part, now, torch.zeros_like(home).index_put((part.ids,), self._of(part.ids))

    def _those(self, turn: int) -> Plan:
        some = self.turn == turn
        return Plan(*(field[some] for field in self.plan))

    def uploads(self, usable: Tensor) -> Callable[[Tensor], Uploads]:
        """For each client the sum of its mediator's clients."""
        self.parts = [
            (ids, ups._replace(delta=tree.row(self.way, self._of(ids)))) for ids, ups in self.parts
        ]
        return super().uploads(usable)
