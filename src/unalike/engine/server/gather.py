"""Answers of a round as they arrive: summed at once if a sum is enough, otherwise all kept.

A sum needs the memory of one upload, whatever the size of the cohort. It uses weights that are
known before the last answer, and an answer that looks too long is set aside until the guard has
seen the others. If the guard refuses one that was summed, or a rule needs more than the sum, the
round is computed again with every answer kept: clients are pure, so it is the same round.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from unalike import channel, tree
from unalike.channel import Channel
from unalike.engine.server.guard import Guard
from unalike.engine.transport import Ahead, Replies, Sums, Work
from unalike.tree import Tree
from unalike.uploads import NotSummed, Sealed, Stacked, Summed, Uploads


def decoded(members: Channel, wire: Tree) -> Tree:
    """Uploads as a server uses them, from what travelled; both stacked."""
    return torch.func.vmap(lambda up: channel.decode(members, up))(wire) if members else wire


def lengths(ups: Tree, n: int) -> Tensor:
    """The length of every upload, [n] in double precision on the CPU."""
    if not tree.leaves(ups):  # who shares nothing sends nothing
        return torch.zeros(n, dtype=torch.float64)
    return tree.lengths(ups)


class Gathered:
    """What came in, in the order of the clients' numbers."""

    fewest = 1  # usable answers

    def __init__(self, members: Channel, planned: Tensor) -> None:
        """``planned`` are the clients that are expected to answer, ascending."""
        self.members, self.planned = members, planned
        self.ids: list[Tensor] = []
        self.norms: list[Tensor] = []
        self.stats: list[dict[str, Tensor]] = []
        self.work = Work()
        self.sent: list[Tensor] = []  # the bytes of each answer

    def take(self, part: Replies) -> None:
        """Some more answers."""
        self.work += part.work
        if not len(part.ids):
            return
        n, ups = len(part.ids), None
        if part.totals:
            self.sent.append(torch.full((n,), tree.size_bytes(part.totals[0])))
        else:
            self.sent.append(channel.sizes(part.wire, n))
            ups = decoded(self.members, part.wire)
        norm = lengths(ups, n) if part.lengths is None else part.lengths
        numbers = {k: v.cpu() for k, v in part.stats.items()}
        for value in numbers.values():
            norm = norm + torch.where(torch.isfinite(value), 0.0, torch.nan)
        self.ids.append(part.ids)
        self.norms.append(norm)
        self.stats.append(numbers)
        if part.totals:
            self._keep_sums(part.ids, part.totals, norm, numbers)
        else:
            self._keep(part.ids, ups, norm, numbers)

    def _keep(self, ids: Tensor, ups: Tree, norm: Tensor, numbers: dict[str, Tensor]) -> None:
        raise NotImplementedError

    def _keep_sums(
        self, ids: Tensor, totals: Sequence[Tree], norm: Tensor, numbers: dict[str, Tensor]
    ) -> None:
        raise NotSummed  # no sum of single uploads was requested

    @property
    def bytes(self) -> Tensor:
        """What each answer took, in the order of the clients' numbers, without its statistics."""
        if not self.ids:
            return torch.zeros(0, dtype=torch.int64)
        return torch.cat(self.sent)[torch.cat(self.ids).argsort()]

    def numbers(self) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """(clients, lengths of their updates, statistics), by ascending number."""
        if not self.ids:
            return self.planned[:0], torch.zeros(0, dtype=torch.float64), {}
        ids, order = torch.cat(self.ids).sort()
        stats = {k: torch.cat([s[k] for s in self.stats])[order] for k in self.stats[0]}
        return ids, torch.cat(self.norms)[order], stats


class Held(Gathered):
    """All uploads, in the parts they came in."""

    def __init__(self, members: Channel, planned: Tensor) -> None:
        """Nothing yet."""
        super().__init__(members, planned)
        self.parts: list[tuple[Tensor, Tree]] = []

    def _keep(self, ids: Tensor, ups: Tree, norm: Tensor, numbers: dict[str, Tensor]) -> None:
        self.parts.append((ids, ups))

    def uploads(self, usable: Tensor) -> Callable[[Tensor], Uploads]:
        """The uploads of some clients, by their numbers."""
        self._join()

        def of(ids: Tensor) -> Uploads:
            ((there, ups),) = self.parts
            if len(ids) == len(there):
                return Stacked(ups)
            return Stacked(tree.row(ups, torch.searchsorted(there, ids)))

        return of

    def usable(self, got: Tensor) -> Iterator[tuple[Tensor, Tree]]:
        """Some clients with their uploads, part by part."""
        for ids, ups in self.parts:
            some = torch.isin(ids, got)
            if bool(some.all()):
                yield ids, ups
            elif some.any():
                yield ids[some], tree.row(ups, some)

    def _join(self) -> None:
        """Make one part of all, in the order of the clients' numbers."""
        (first, ups), n = self.parts[0], sum(len(ids) for ids, _ in self.parts)
        if n == len(first) and bool((first.diff() > 0).all()):
            return
        everybody = torch.cat([ids for ids, _ in self.parts]).sort().values
        whole = tree.map(lambda x: x.new_empty((n, *x.shape[1:])), ups)
        while self.parts:  # copies are released
            ids, ups = self.parts.pop()
            at = torch.searchsorted(everybody, ids)
            tree.map(lambda held, new: held.index_copy_(0, at.to(held.device), new), whole, ups)  # noqa: B023
        self.parts = [(everybody, whole)]


class Running(Gathered):
    """The sum of the uploads so far."""

    def __init__(
        self,
        members: Channel,
        planned: Tensor,
        guard: Guard,
        scale: float,
        ahead: Callable[[dict[str, Tensor]], Tensor],
    ) -> None:
        """``ahead`` gives what each answer counts, up to a common factor, from its own numbers."""
        super().__init__(members, planned)
        self.guard, self.scale, self.ahead = guard, scale, ahead
        self.total: Tree = None
        self.u: dict[int, float] = {}
        self.summed: set[int] = set()
        self.aside: dict[int, Tree] = {}

    def _keep(self, ids: Tensor, ups: Tree, norm: Tensor, numbers: dict[str, Tensor]) -> None:
        u = self.ahead(numbers)
        self.u |= dict(zip(ids.tolist(), u.tolist(), strict=True))
        usable = self.guard.usable(torch.cat(self.norms), self.scale)[-len(ids) :]
        for j in (torch.isfinite(norm) & ~usable).nonzero()[:, 0].tolist():
            self.aside[int(ids[j])] = tree.row(ups, j)
        if usable.any():
            self._add(tree.row(ups, usable) if not usable.all() else ups, u[usable])
            self.summed |= set(ids[usable].tolist())

    def beforehand(self, sizes: Tensor) -> Ahead | None:
        """What clients of these sizes count, if that is known before they answer.

        Whatever the others send, an update no longer than the model is not refused.
        """
        try:
            u = self.ahead({"examples": sizes.float()})
        except KeyError:  # it depends on what they report
            return None
        return Ahead(u.double(), max(self.scale, 1.0))

    def _keep_sums(
        self, ids: Tensor, totals: Sequence[Tree], norm: Tensor, numbers: dict[str, Tensor]
    ) -> None:
        u = self.ahead(numbers)
        if not bool((norm <= max(self.scale, 1.0)).all()):  # a statistic that is not a number
            raise NotSummed
        self.u |= dict(zip(ids.tolist(), u.tolist(), strict=True))
        for total in totals:  # one after the other, however many came together
            self._join(total)
        self.summed |= set(ids.tolist())

    def _add(self, ups: Tree, u: Tensor) -> None:
        self._join(tree.mean(u, ups))

    def _join(self, part: Tree) -> None:
        self.total = part if self.total is None else tree.map(Tensor.add_, self.total, part)

    def uploads(self, usable: Tensor) -> Callable[[Tensor], Uploads]:
        """The sum over the usable ones."""
        wanted = set(usable.tolist())
        if not self.summed <= wanted:
            raise NotSummed
        for i in sorted(wanted - self.summed):
            one = tree.map(lambda x: x[None], self.aside[i])
            self._add(one, torch.tensor([self.u[i]], dtype=torch.float64))

        def of(ids: Tensor) -> Uploads:
            if len(ids) != len(usable):
                raise NotSummed
            return Summed(self.total, torch.tensor([self.u[i] for i in ids.tolist()]).double())

        return of


class Unseen(Gathered):
    """Numbers of clients whose uploads are summed elsewhere."""

    def __init__(self, planned: Tensor, sums: Sums) -> None:
        """``sums`` makes the sum, once it is known what each counts."""
        super().__init__((), planned)
        self.sums, self.fewest = sums, sums.fewest

    def take(self, part: Replies) -> None:
        """Some more answers; each says how long its upload is."""
        self.work += part.work
        if len(part.ids):
            stats = {k: v.cpu() for k, v in part.stats.items()}
            self.norms.append(stats.pop("norm").double())
            self.ids.append(part.ids)
            self.stats.append(stats)
            self.sent.append(torch.full((len(part.ids),), self.sums.bytes))

    def uploads(self, usable: Tensor) -> Callable[[Tensor], Uploads]:
        """Whatever is asked of them becomes a question to the clients."""
        return lambda ids: Sealed(ids, self.sums.total)
