"""Weights from the latent space of a variational autoencoder: FedDisco's rule on its distances.

d_k = mean over latent dimensions of W1(z_k, N(0, 1))         (``parts/mixing/latents.py``)
u_k = max(0, n_k / n - a d_k + b);   p_k = u_k / sum of u     (``parts/mixing/disco.py``)

Clients either report d once, before the first round, with an encoder trained earlier, or with every
answer; then the server uses what it needs: the newest value, or the first one after a warm-up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Gauge, Memoryless, Weighed
from unalike.parts.mixing.disco import Disco, by_sum
from unalike.parts.mixing.latents import LatentDistance, Latents
from unalike.parts.mixing.questions import Question
from unalike.tree import Params


@dataclass(frozen=True)
class AskedLatentDisco(Memoryless):
    """Fixed distances, from the survey; the encoder may be that of the stage before."""

    question: Latents
    rule: Disco
    normalise: bool = False

    @property
    def survey(self) -> tuple[Question, ...]:
        """The distance, once."""
        return (self.question,)

    def inherit(self, model: Params) -> Self:
        """With that model's encoder, unless there is one already."""
        return replace(self, question=self.question.inherit(model))

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """Over the cohort."""
        d = cohort.survey["latent"][cohort.ids][:, 0].double()
        p, note = self.rule(cohort.share, by_sum(d) if self.normalise else d)
        return Weighed(p, state, note, {"d": d})


class Memory(NamedTuple):
    """Every client's distance, and the round it is from (-1: none)."""

    d: Tensor
    measured: Tensor


@dataclass(frozen=True)
class ReportedLatentDisco(Memoryless):
    """Distances of the received model, reported with every answer.

    Until round ``warmup`` weights are sizes. From then on a client's distance is the one it
    reported last, but not renewed before it is ``every`` rounds old; with ``every`` = 0 never.
    """

    gauge: LatentDistance
    rule: Disco
    warmup: int = 0
    every: int = 1
    normalise: bool = False
    needs: ClassVar[frozenset[str]] = frozenset({"latent"})

    @property
    def gauges(self) -> Mapping[str, Gauge]:
        """The distance, before training."""
        return {"latent": self.gauge}

    def init(self, n_clients: int) -> Memory:
        """Nothing measured."""
        return Memory(torch.zeros(n_clients, dtype=torch.float64), torch.full((n_clients,), -1))

    def weights(self, state: Memory, cohort: Cohort) -> Weighed:
        """By size while warming up, then by size and distance."""
        if cohort.round < self.warmup:
            return Weighed(cohort.share, state, logged={"d": cohort.stats["latent"].double()})
        ids, t = cohort.ids, cohort.round
        before, age = state.measured[ids], t - state.measured[ids]
        stale = (before < 0) | (age >= self.every if self.every else torch.zeros_like(before) > 0)
        own = torch.where(stale, cohort.stats["latent"].double(), state.d[ids])
        p, note = self.rule(cohort.share, by_sum(own) if self.normalise else own)
        memory = Memory(
            state.d.index_copy(0, ids, own),
            state.measured.index_copy(0, ids, torch.where(stale, t, before)),
        )
        return Weighed(p, memory, note, {"d": own})
