"""Clients that drop out, straggle or send garbage: seeded, so that a faulty run can be repeated."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.func import vmap

from unalike import rng, tree
from unalike.engine.loop import Replies, Transport
from unalike.parts.mixing.questions import Question
from unalike.parts.schedule import Plan

Garbage = Literal["nan", "huge", "noise", "zero"]


@dataclass(frozen=True)
class Faults:
    """How often clients fail, and how."""

    drop: float = 0.0  # the client never answers
    straggle: float = 0.0  # it does only part of its work
    least_work: float = 0.1  # the least share a straggler does
    garbage: float = 0.0  # it answers with nonsense
    kind: Garbage = "nan"

    @property
    def any(self) -> bool:
        """Whether anything can fail."""
        return self.drop + self.straggle + self.garbage > 0


class FaultyTransport:
    """A transport some of whose clients fail."""

    def __init__(self, inner: Transport, faults: Faults, seed: int) -> None:
        """Faults depend on the seed, the round and the client alone."""
        self.inner, self.faults = inner, faults
        self.key, self.n_clients = rng.stream(seed, "faults"), inner.n_clients
        self.trained: frozenset[int] = frozenset()  # in the last round

    def survey(self, questions: tuple[Question, ...]) -> dict[str, Tensor]:
        """Surveys do not fail."""
        return self.inner.survey(questions)

    def train(self, t: int, plan: Plan, downs: list[Any], home: Tensor) -> Replies:
        """The inner transport's answers, less those lost, plus nonsense."""
        f, keys = self.faults, rng.client(self.key, t, plan.ids)
        chance = vmap(lambda k: rng.uniform(k, 4))(keys)
        lazy = chance[:, 1] < f.straggle
        share = f.least_work + (1 - f.least_work) * chance[:, 2]
        epochs = torch.where(lazy, plan.epochs * share, plan.epochs)
        there = chance[:, 0] >= f.drop
        kept = Plan(plan.ids[there], plan.role[there], plan.reply[there], epochs[there])
        self.trained = frozenset(kept.ids.tolist())
        if not len(kept.ids):
            return Replies(kept.ids, (), {}, {"samples": 0.0, "padding": 0.0})
        got = self.inner.train(t, kept, downs, home)
        mad = dict(zip(plan.ids.tolist(), (chance[:, 3] < f.garbage).tolist(), strict=True))
        where = torch.tensor([mad[i] for i in got.ids.tolist()], dtype=torch.bool)
        return got._replace(ups=self._spoil(got.ups, where, rng.fold_in(self.key, t)))

    def refuse(self, ids: list[int]) -> None:
        """As the inner transport, which never heard of those who dropped out."""
        self.inner.refuse([i for i in ids if i in self.trained])

    def _spoil(self, ups: tree.Tree, where: Tensor, key: rng.Key) -> tree.Tree:
        if not where.any():
            return ups

        def spoil(x: Tensor) -> Tensor:
            nonsense = {
                "nan": lambda: torch.full_like(x, torch.nan),
                "huge": lambda: x * 1e12,
                "noise": lambda: rng.normal(key, *x.shape).to(x),
                "zero": lambda: torch.zeros_like(x),
            }[self.faults.kind]()
            mask = where.to(x.device).reshape(-1, *[1] * (x.ndim - 1))
            return torch.where(mask, nonsense, x)

        return tree.map(spoil, ups)
