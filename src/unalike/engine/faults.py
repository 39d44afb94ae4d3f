"""Clients that drop out, straggle or send garbage: seeded, so that a faulty run can be repeated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.func import vmap

from unalike import rng, tree
from unalike.engine.transport import Replies, Through, Transport
from unalike.parts.participation.schedule import Plan
from unalike.tree import Tree

Garbage = Literal["nan", "huge", "noise", "zero"]


@dataclass(frozen=True)
class Faults:
    """How often clients fail, and how."""

    drop: float = 0.0  # the client never answers
    straggle: float = 0.0  # it does only part of its work
    least_work: float = 0.1  # the smallest share of the work that a straggler does
    garbage: float = 0.0  # it answers with nonsense
    kind: Garbage = "nan"

    @property
    def any(self) -> bool:
        """Whether anything can fail."""
        return self.drop + self.straggle + self.garbage > 0


class FaultyTransport(Through):
    """A transport some of whose clients fail; surveys and evaluations do not."""

    def __init__(self, inner: Transport, faults: Faults, seed: int) -> None:
        """Faults depend on the seed, the round and the client alone."""
        super().__init__(inner)
        self.faults, self.key = faults, rng.stream(seed, "faults")
        self.trained: frozenset[int] = frozenset()  # in the last round

    def train(self, t: int, plan: Plan, downs: Tree, home: Tensor) -> Iterator[Replies]:
        """The inner transport's answers without those that are lost, plus nonsense."""
        f, keys = self.faults, rng.client(self.key, t, plan.ids)
        chance = vmap(lambda k: rng.uniform(k, 4))(keys)
        lazy = chance[:, 1] < f.straggle
        share = f.least_work + (1 - f.least_work) * chance[:, 2]
        epochs = torch.where(lazy, plan.epochs * share, plan.epochs)
        there = chance[:, 0] >= f.drop
        kept = Plan(plan.ids[there], plan.role[there], plan.reply[there], epochs[there])
        self.trained = frozenset(kept.ids.tolist())
        if not len(kept.ids):
            return
        mad = plan.ids[chance[:, 3] < f.garbage]
        for part in self.inner.train(t, kept, downs, home):
            where = torch.isin(part.ids, mad)
            spoiled = self._spoil(part.wire, where, rng.client(self.key, t, part.ids))
            yield part._replace(wire=spoiled, lengths=None)

    def refuse(self, ids: Sequence[int]) -> None:
        """Like the inner transport, which does not know about clients that dropped out."""
        self.inner.refuse([i for i in ids if i in self.trained])

    def _spoil(self, wire: Tree, where: Tensor, keys: rng.Key) -> Tree:
        if not where.any():
            return wire

        def spoil(x: Tensor) -> Tensor:
            noise = vmap(lambda k: rng.normal(k, *x.shape[1:]))
            nonsense = {
                "nan": lambda: torch.full_like(x, torch.nan),
                "huge": lambda: x * 1e12,
                "noise": lambda: noise(keys.to(x.device)).to(x),
                "zero": lambda: torch.zeros_like(x),
            }[self.faults.kind]()
            mask = where.to(x.device).reshape(-1, *[1] * (x.ndim - 1))
            return torch.where(mask, nonsense, x)

        return tree.map(lambda x: spoil(x) if x.is_floating_point() else x, wire)
