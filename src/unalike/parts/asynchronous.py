"""Asynchronous rounds (FedBuff, Nguyen et al. 2022): who arrives when, and how stale.

``concurrency`` clients work at any time. A client that has finished uploads, and an idle client
starts at once with the newest model; if nobody is idle (no client is in the buffer twice), it
starts after the next step. With K answers in its buffer the server takes a step: that is a round.
All this follows from the clients' seconds, not from what they learn, so the course of events is a
pure function of the seed, and a resumed run repeats it.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike import rng
from unalike.parts.schedule import Plan, Sampled
from unalike.rng import Key


class Arrival(NamedTuple):
    """A client whose answer the server used, and the version of the model it began with."""

    client: int
    version: int


class Step(NamedTuple):
    """A step of the server."""

    at: float  # seconds since the beginning
    arrivals: tuple[Arrival, ...]
    lost: tuple[int, ...] = ()  # clients whose answers were too old, since the step before


@dataclass
class Timeline:
    """The events of a run, as far as they were asked for."""

    seconds: Tensor  # [n] of a client's round
    key: Key
    buffer: int
    concurrency: int
    stalest: int
    jitter: float
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The first clients begin at time 0 with version 0."""
        n = len(self.seconds)
        self.flying: list[tuple[float, int, int]] = []  # (arrival, client, version)
        self.busy: set[int] = set()
        self.waiting: list[Arrival] = []
        self.lost: list[int] = []
        self.started = 0
        for client in rng.permutation(rng.fold_in(self.key, -1), n)[: self.concurrency].tolist():
            self._start(client, 0.0)

    def _start(self, client: int, now: float) -> None:
        key = rng.fold_in(self.key, self.started)
        late = float(torch.exp(self.jitter * rng.normal(key, 1).double()))
        heappush(self.flying, (now + float(self.seconds[client]) * late, client, len(self.steps)))
        self.busy.add(client)
        self.started += 1

    def step(self, t: int) -> Step:
        """The server's step ``t``."""
        while len(self.steps) <= t:
            self._arrive()
        return self.steps[t]

    def _arrive(self) -> None:
        """All that are done at the next moment; others begin after them in every free place."""
        now = self.flying[0][0]
        while self.flying and self.flying[0][0] == now:
            _, client, version = heappop(self.flying)
            self.busy.discard(client)
            if len(self.steps) - version <= self.stalest:
                self.waiting.append(Arrival(client, version))
            else:  # its work was in vain
                self.lost.append(client)
            if len(self.waiting) == self.buffer:
                self.steps.append(Step(now, tuple(sorted(self.waiting)), tuple(self.lost)))
                self.waiting, self.lost = [], []
        while len(self.busy) < self.concurrency:
            taken = self.busy | {a.client for a in self.waiting}
            idle = [i for i in range(len(self.seconds)) if i not in taken]
            if not idle:
                break
            lot = rng.uniform(rng.fold_in(rng.fold_in(self.key, -2), self.started), 1)
            self._start(idle[int(lot * len(idle))], now)


@dataclass(frozen=True)
class Buffered(Sampled):
    """Rounds of the ``buffer`` answers that arrive next; roles are how stale they are."""

    buffer: int = 10
    concurrency: int = 20
    stalest: int = 10
    needs: ClassVar[frozenset[str]] = frozenset()

    def fewest(self, n: int) -> int:
        """Always a full buffer."""
        return self.buffer

    def timeline(self, key: Key, seconds: Tensor, jitter: float) -> Timeline:
        """The events, from what a round of each client takes."""
        return Timeline(seconds, key, self.buffer, self.concurrency, self.stalest, jitter)

    def arrived(self, t: int, step: Step) -> Plan:
        """The plan of a step."""
        ids = torch.tensor([a.client for a in step.arrivals])
        stale = torch.tensor([t - a.version for a in step.arrivals])
        return self.planned(ids)._replace(role=stale)
