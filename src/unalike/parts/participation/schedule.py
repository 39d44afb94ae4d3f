"""Who works in round t, in which role, and who answers."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from unalike import rng
from unalike.errors import ConfigError
from unalike.rng import Key


class Plan(NamedTuple):
    """One round's work."""

    ids: Tensor  # [n] clients, ascending
    role: Tensor  # [n]
    reply: Tensor  # [n] bool; the others train and keep the result
    epochs: Tensor  # [n] how much each does


class Schedule(Protocol):
    """A pure rule from the round number to its plan."""

    def plan(self, t: int, span: range, n: int, key: Key) -> Plan:
        """The plan of round ``t`` for ``n`` clients; ``span`` are the rounds of its stage."""
        ...


@dataclass(frozen=True)
class Participation:
    """How many clients take part in a round: a fraction of all, or a number.

    A share ``extra`` of them is invited beside them; the round ends with the answers it needs.
    """

    fraction: float = 1.0
    number: int | None = None
    extra: float = 0.0

    def invited(self, n: int) -> int:
        """ceil((1 + extra) count), at most all."""
        return min(n, math.ceil((1 + self.extra) * self.count(n) - 1e-9))

    def count(self, n: int) -> int:
        """max(1, floor(C n)); the guard keeps 0.29 x 100 from becoming 28."""
        if self.number is None:
            return max(1, int(self.fraction * n + 1e-9))
        if self.number > n:
            raise ConfigError(
                f"participation.number is {self.number} but there are only {n} clients; "
                f"choose at most {n}."
            )
        return self.number


@dataclass(frozen=True)
class Late:
    """The last clients are absent at first; from some round on they are in every cohort."""

    clients: int
    first: int  # the round, counted from 0, that they join in
    others: float | None = None  # the share of the others from then on; None: as before, 0: nobody


@runtime_checkable
class Fewest(Protocol):
    """A schedule whose rounds may have fewer answers than clients take part."""

    def fewest(self, n: int) -> int:
        """The fewest of a round."""
        ...


def _same(ids: Tensor, epochs: float) -> Tensor:
    # In double precision, or 1.3 epochs of 5 examples would round to 6 instead of 7.
    return torch.full(ids.shape, epochs, dtype=torch.float64)


@dataclass(frozen=True)
class Sampled:
    """A uniform sample without replacement; all answer."""

    participation: Participation = Participation()
    epochs: float = 1.0
    late: Late | None = None

    def drawn(self, t: int, n: int) -> int:
        """How many of ``n`` clients that are not late are drawn in round ``t``."""
        others = None if self.late is None or t < self.late.first else self.late.others
        return self.participation.count(n) if others is None else int(others * n + 1e-9)

    def size(self, t: int, n: int) -> int:
        """How many work in round ``t``."""
        late = 0 if self.late is None else self.late.clients
        joined = late if self.late is not None and t >= self.late.first else 0
        return self.drawn(t, n - late) + joined

    def plan(self, t: int, span: range, n: int, key: Key) -> Plan:
        """The cohort depends on the key and the round alone, never on the method."""
        settled = n if self.late is None else n - self.late.clients
        m = self.drawn(t, settled) if self.late is not None else self.participation.invited(n)
        ids = _sample(int(key), t, settled, m)
        if self.late is not None and t >= self.late.first:
            ids = torch.cat([ids, torch.arange(settled, n)])
        return self.planned(ids)

    def planned(self, ids: Tensor) -> Plan:
        """These clients, who all answer."""
        everyone = torch.ones_like(ids, dtype=torch.bool)
        return Plan(ids, torch.zeros_like(ids), everyone, _same(ids, self.epochs))


@lru_cache(maxsize=16)  # as many runs as go side by side
def _sample(key: int, t: int, n: int, m: int) -> Tensor:
    """Remembered, because the clients' side asks for a cohort before the server does."""
    return rng.sample(rng.fold_in(torch.tensor(key), t), n, m)


def too_many(phases: int, active: int) -> str:
    """Why so few clients do not make so many groups, as a sentence; empty if they do."""
    if phases <= active:
        return ""
    return (
        f"phases = {phases} leaves a group without a client, since {active} are active; "
        "lower phases or raise the participation."
    )


@dataclass(frozen=True)
class Phased:
    """Phase-shift's queue: ``phases`` sets of clients at different distances from their upload.

    The set in the last position answers and leaves; as many idle clients enter at position 0. At
    full participation they are those that left, so fixed groups rotate. Sets are equally large, or
    some have one client more. In the last round everybody answers.
    """

    phases: int
    participation: Participation = Participation()
    epochs: float = 1.0

    def plan(self, t: int, span: range, n: int, key: Key) -> Plan:
        """Positions are the roles; 0 is the newest."""
        active = self.participation.count(n)
        if why := too_many(self.phases, active):
            raise ConfigError(why)
        queue = _queue(int(key), t - span.start, n, active, self.phases)
        ids = torch.cat(queue)
        sizes = torch.tensor([len(group) for group in queue])
        role = torch.arange(self.phases).repeat_interleave(sizes)
        ids, order = ids.sort()
        role = role[order]
        reply = (role == self.phases - 1) | torch.tensor(t == span.stop - 1)
        return Plan(ids, role, reply, _same(ids, self.epochs))


@lru_cache(maxsize=256)
def _queue(seed: int, t: int, n: int, active: int, phases: int) -> tuple[Tensor, ...]:
    """The sets in the queue at round ``t``, newest first; pure, so a resumed run finds the same."""
    if t == 0:
        first = rng.permutation(rng.fold_in(torch.tensor(seed), 0), n)[:active]
        return first.tensor_split(phases)
    for earlier in range(0, t, 64):  # fill the cache step by step: no deep recursion
        _queue(seed, earlier, n, active, phases)
    before = _queue(seed, t - 1, n, active, phases)
    staying = torch.cat(before[:-1]) if phases > 1 else torch.zeros(0, dtype=torch.long)
    idle = torch.ones(n, dtype=torch.bool)
    idle[staying] = False
    candidates = idle.nonzero()[:, 0]
    draw = rng.permutation(rng.fold_in(torch.tensor(seed), t), len(candidates))
    return (candidates[draw[: len(before[-1])]], *before[:-1])
