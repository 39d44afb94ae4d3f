"""Weights from the latent space of a variational autoencoder: FedDisco's rule on its distances.

d_k = mean over latent dimensions of W1(z_k, N(0, 1))         (``parts/mixing/latents.py``)
u_k = max(0, n_k / n - a d_k + b);   p_k = u_k / sum of u     (``parts/mixing/disco.py``)

Either d is asked once, before the first round, with an encoder trained earlier; or clients report
it with every answer and the server uses what it needs: the newest, or the first after a warm-up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Gauge, Memoryless, Question
from unalike.parts.mixing.disco import Disco, Fallbacks, by_sum
from unalike.parts.mixing.latents import LatentDistance, Latents


@dataclass(frozen=True)
class AskedLatentDisco(Memoryless):
    """Fixed distances, from the survey."""

    question: Latents
    rule: Disco
    normalise: bool = False

    @property
    def survey(self) -> tuple[Question, ...]:
        """The distance, once."""
        return (self.question,)

    def init(self, n_clients: int) -> Fallbacks:  # type: ignore[override]
        """No fallback yet."""
        return Fallbacks(torch.zeros((), dtype=torch.int64))

    def weights(self, state: Fallbacks, cohort: Cohort) -> tuple[Tensor, Fallbacks]:
        """Over the cohort."""
        d = cohort.survey["latent"][cohort.ids][:, 0].double()
        p, none = self.rule(cohort.share, by_sum(d) if self.normalise else d)
        return p, Fallbacks(state.fallbacks + none)

    def note(self, before: Any, after: Any) -> str:
        """Whether the formula gave nobody a weight."""
        return self.rule.note(before, after)


class Memory(NamedTuple):
    """Every client's distance, the round it is from (-1: none), and the rounds without weights."""

    d: Tensor
    measured: Tensor
    fallbacks: Tensor


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
    def gauges(self) -> Mapping[str, Gauge]:  # type: ignore[override]
        """The distance, before training."""
        return {"latent": self.gauge}

    def init(self, n_clients: int) -> Memory:  # type: ignore[override]
        """Nothing measured."""
        return Memory(
            torch.zeros(n_clients, dtype=torch.float64),
            torch.full((n_clients,), -1),
            torch.zeros((), dtype=torch.int64),
        )

    def weights(self, state: Memory, cohort: Cohort) -> tuple[Tensor, Memory]:
        """By size while warming up, then by size and distance."""
        if cohort.round < self.warmup:
            return cohort.share, state
        ids, t = cohort.ids, cohort.round
        before, age = state.measured[ids], t - state.measured[ids]
        stale = (before < 0) | (age >= self.every if self.every else torch.zeros_like(before) > 0)
        own = torch.where(stale, cohort.stats["latent"].double(), state.d[ids])
        p, none = self.rule(cohort.share, by_sum(own) if self.normalise else own)
        memory = Memory(
            state.d.index_copy(0, ids, own),
            state.measured.index_copy(0, ids, torch.where(stale, t, before)),
            state.fallbacks + none,
        )
        return p, memory

    def note(self, before: Any, after: Any) -> str:
        """Whether the formula gave nobody a weight."""
        return self.rule.note(before, after)
