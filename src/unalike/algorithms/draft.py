"""A recipe under construction: FedAvg, of which every named method changes something.

A draft has a *base*, the algorithm of clients and server, and *wrappers* around it, in the order
they were named; one that gives clients models of their own is outermost. The other fields are parts
that the base or the recipe uses. A method that needs another training before it (a warm start, an
encoder) or after it (fine-tuning) adds that as a stage.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from torch import Tensor

from unalike.algorithm import Algorithm
from unalike.algorithms.fedavg import Apart, FedAvg, Step
from unalike.channel import Channel
from unalike.errors import ConfigError
from unalike.parts.clock import Clock
from unalike.parts.compression.codec import NONE, Compression
from unalike.parts.compression.copies import Copies
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.examples import ByExamples
from unalike.parts.objective import Nothing, Term
from unalike.parts.optim import Optimizer, Sgd
from unalike.parts.privacy.guarantee import Guarantee
from unalike.parts.private import SHARED, Private
from unalike.parts.reach import UNMEASURED, Unmeasured
from unalike.parts.schedule import Fewest, Late, Participation, Phased, Sampled, Schedule
from unalike.parts.topology import Star, Topology
from unalike.parts.transform import Transform
from unalike.recipe import Decay, Filter, Program, Recipe, Stage
from unalike.tasks import Task
from unalike.tree import Params

Make = Callable[["Draft"], Algorithm]
Wrap = Callable[[Algorithm, "Draft"], Algorithm]
Fit = Callable[[Tensor], str]  # from a client's own features to what is wrong with them


class Before(NamedTuple):
    """An earlier stage: the same draft, changed, for some rounds."""

    change: Callable[["Draft"], "Draft"]
    rounds: int


class After(NamedTuple):
    """A stage that continues afterwards: the draft, changed, for some rounds."""

    change: Callable[["Draft"], "Draft"]
    rounds: int  # the last ones of all
    start: Literal["model", "own"] = "own"  # with the shared model, or each client with its own


def fedavg(draft: "Draft") -> FedAvg:
    """The default base, built from the draft's parts."""
    d = draft
    parts = d.task, d.opt, d.term, d.server_opt, d.private, d.step, d.keep_optimizer, d.apart
    return FedAvg(*parts)


def no_files(path: str) -> Params:
    """Used where the model of an earlier run cannot be read."""
    raise ConfigError(f"'{path}' cannot be read here; name it in a configuration of 'unalike run'.")


@dataclass(frozen=True)
class Draft:
    """Everything that decides a recipe; every default is FedAvg's."""

    task: Task
    n_clients: int
    classes: int
    shape: tuple[int, ...]
    rounds: int
    opt: Optimizer = Sgd(0.1)
    epochs: float = 1.0
    batch_size: int = 32
    decay: Decay = Decay()
    participation: Participation = Participation()
    topology: Topology = Star()
    base: Make = fedavg
    wraps: tuple[Wrap, ...] = ()
    personal: Wrap | None = None  # a personal model of every client, around everything else
    term: Term = Nothing()
    server_opt: Optimizer = Sgd(1.0)
    private: Private = SHARED
    step: Step = "joint"
    apart: Apart | None = None  # private leaves first, over all minibatches
    keep_optimizer: bool = False  # through the rounds of a client
    mean: Mixing = ByExamples()  # the weights where no method sets them
    weights: Mixing | None = None
    work: Callable[[Mixing, "Draft"], Mixing] | None = None  # from weights of models to of updates
    reach: Callable[["Draft"], Unmeasured] = lambda _: UNMEASURED  # whether clients report theirs
    transform: Transform | None = None
    channel: Channel = ()
    compression: Compression = NONE  # applied to uploads after the channel
    consensus_step: float | None = None  # and the step of nodes then, if there is no server
    download: Compression = NONE  # of what the server sends, which never forgets
    filters: tuple[Filter, ...] = ()
    guarantee: Guarantee | None = None
    phases: int = 0
    schedule: Callable[["Draft"], Schedule] | None = None  # who works when, if not a plain sample
    clock: Clock | None = None
    pooled: bool = False
    before: Before | None = None
    after: After | None = None
    start: Literal["fresh", "model"] = "fresh"  # of the last stage
    first: int = 0  # the round from which on what depends on time counts
    fits: tuple[Fit, ...] = ()
    read: Callable[[str], Params] = no_files  # the model in a file or a run folder
    builds_on: tuple[str, ...] = ()  # files and run folders that were read
    late: Late | None = None  # clients that join later
    protected: int = 0  # attributes among the features, the last ones, that no network sees

    @property
    def mixing(self) -> Mixing:
        """The rule of the weights before they are changed to those of updates."""
        return self.mean if self.weights is None else self.weights

    @property
    def answers(self) -> int:
        """The most answers that the server with the fewest clients can get in a round."""
        return min(self.planned, int(self.topology.home(self.n_clients).bincount().min()))

    @property
    def planned(self) -> int:
        """The fewest clients that are to answer in a round."""
        usual = Sampled(self.participation, self.epochs, self.late)
        rounds = (0, self.late.first) if self.late else (0,)
        planned = min(usual.size(t, self.n_clients) for t in rounds)
        planned = max(1, planned // max(self.phases, 1))  # too many phases are refused elsewhere
        if self.schedule is not None and isinstance(made := self.schedule(self), Fewest):
            planned = made.fewest(self.n_clients)
        return planned

    @property
    def reports(self) -> frozenset[str]:
        """The statistics that clients report beyond examples and steps."""
        return self.recipe().needs

    def algorithm(self) -> Algorithm:
        """The base in its wrappers."""
        made = self.base(self)
        for wrap in self.wraps:
            made = wrap(made, self)
        return made if self.personal is None else self.personal(made, self)

    def recipe(self) -> Recipe:
        """The recipe of the draft itself, without stages before and after."""
        schedule: Schedule = Sampled(self.participation, self.epochs, self.late)
        if self.schedule is not None:
            schedule = self.schedule(self)
        if self.phases:
            schedule = Phased(self.phases, self.participation, self.epochs)
        return Recipe(
            self.algorithm(),
            self.mixing if self.work is None else self.work(self.mixing, self),
            schedule,
            self.topology,
            self.transform,
            (*self.channel, *(() if self.topology.local else self._codecs(self.compression))),
            self.filters,
            self.guarantee,
            self.batch_size,
            self.decay,
            self.fits,
            self.clock,
            self._codecs(replace(self.download, feedback=True)),
            self.copies,
        )

    @property
    def copies(self) -> Copies | None:
        """Without a server, messages between neighbours are compressed."""
        if not self.topology.local or self.consensus_step is None:
            return None
        codecs = self._codecs(replace(self.compression, feedback=True))
        return Copies(codecs, self.consensus_step) if codecs or self.consensus_step < 1 else None

    def _codecs(self, compression: Compression) -> Channel:
        return compression.codecs(self.task.network.buffers)

    def program(self) -> Program:
        """All stages.

        One that continues with a model shares the rounds, and the decay of the learning rate, with
        those before it; one that starts afresh has all of both again.
        """
        if self.after is not None:
            change, rounds, start = self.after
            stages = replace(self, after=None, rounds=self.rounds - rounds).program()
            decay = stages[-1].recipe.decay
            last = change(replace(self, before=None, after=None, decay=decay))
            return (*stages, Stage(last.recipe(), rounds, start))
        if self.before is None:
            return (Stage(self.recipe(), self.rounds, self.start),)
        change, rounds = self.before
        stages = change(replace(self, before=None, start="fresh", rounds=rounds)).program()
        if self.start == "model":
            return (*stages, Stage(self.recipe(), self.rounds - rounds, self.start))
        t = sum(stage.rounds for stage in stages)
        again = replace(self, first=t, decay=replace(self.decay, first=t))
        return (*stages, Stage(again.recipe(), self.rounds, self.start))
