"""Who is invited to a round, by what is known about clients.

by size:          without replacement, the next one with chance n_k  (Efraimidis & Spirakis 2006)
power of choice:  of d such candidates the m whose last known loss is highest  (Cho et al. 2020)
tiers:            one tier of equally fast clients, then uniformly in it   (Chai et al. 2020)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from unalike import rng
from unalike.errors import ConfigError
from unalike.parts.schedule import Plan, Sampled
from unalike.rng import Key


class Seen(NamedTuple):
    """What a server knows of all clients when it chooses."""

    sizes: Tensor  # [n] examples
    losses: Tensor  # [n] last reported; infinite if never
    seconds: Tensor | None  # [n] what a round usually takes; None without a clock
    survey: Mapping[str, Tensor] = MappingProxyType({})  # what clients answered at the beginning


class Selection(Protocol):
    """A rule that chooses clients."""

    @property
    def needs(self) -> frozenset[str]:
        """The statistics that clients must report for it."""
        ...

    def choose(self, t: int, m: int, key: Key, seen: Seen) -> Tensor:
        """``m`` clients, or fewer, for round ``t``; pure."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """A schedule that looks at what is known before it plans."""

    @property
    def needs(self) -> frozenset[str]:
        """The statistics that clients must report for it."""
        ...

    def choose(self, t: int, span: range, key: Key, seen: Seen) -> Plan:
        """The plan of round ``t``."""
        ...


def by_size(key: Key, sizes: Tensor, m: int) -> Tensor:
    """``m`` clients without replacement, larger ones more likely: the smallest of Exp(1) / n_k."""
    u = rng.uniform(key, len(sizes)).double()
    return (-torch.log1p(-u) / sizes.double()).argsort(stable=True)[:m]


@dataclass(frozen=True)
class BySize:
    """Larger clients are asked more often."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def choose(self, t: int, m: int, key: Key, seen: Seen) -> Tensor:
        """A weighted sample."""
        return by_size(rng.fold_in(key, t), seen.sizes, m)


@dataclass(frozen=True)
class PowerOfChoice:
    """Of ``candidates`` drawn by size, those with the highest loss; the unheard come first."""

    candidates: int
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def choose(self, t: int, m: int, key: Key, seen: Seen) -> Tensor:
        """The candidates in the order of their losses."""
        drawn = by_size(rng.fold_in(key, t), seen.sizes, max(m, self.candidates))
        order = seen.losses[drawn].argsort(descending=True, stable=True)
        return drawn[order[:m]]


@dataclass(frozen=True)
class Tiers:
    """Clients sorted by their seconds into ``tiers`` of equal size; a round belongs to one tier."""

    tiers: int
    needs: ClassVar[frozenset[str]] = frozenset()

    def choose(self, t: int, m: int, key: Key, seen: Seen) -> Tensor:
        """A tier with equal chances, then a uniform sample of it."""
        if seen.seconds is None:
            raise ConfigError(
                "tiers are based on the clients' speeds; set clock.kind = 'simulated'."
            )
        groups = seen.seconds.argsort(stable=True).tensor_split(self.tiers)
        now = rng.fold_in(key, t)
        group = groups[int(rng.uniform(rng.fold_in(now, 0), 1) * self.tiers)]
        return group[rng.permutation(rng.fold_in(now, 1), len(group))[:m]]


@dataclass(frozen=True)
class Selected(Sampled):
    """A selection's choice; all answer."""

    selection: Selection = BySize()

    @property
    def needs(self) -> frozenset[str]:
        """Of the selection."""
        return self.selection.needs

    def fewest(self, n: int) -> int:
        """The cohort, or a whole tier."""
        m = self.participation.count(n)
        return min(m, n // self.selection.tiers) if isinstance(self.selection, Tiers) else m

    def choose(self, t: int, span: range, key: Key, seen: Seen) -> Plan:
        """The plan of round ``t``."""
        m = self.participation.invited(len(seen.sizes))
        return self.planned(self.selection.choose(t, m, key, seen).sort().values)
