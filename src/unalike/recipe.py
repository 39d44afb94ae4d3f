"""A recipe: everything except the data that decides the numbers, the same wherever it runs.

It is built from a configuration and the shapes of the data, so that a server and each of its
clients can build it themselves, and it contains no tensor of anybody's data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.algorithm import Algorithm, Ctx
from unalike.batches import Batches, average
from unalike.channel import Channel, encode, keys
from unalike.cohort import Cohort
from unalike.parts.clock import Clock
from unalike.parts.compression.copies import Copies
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.examples import ByExamples
from unalike.parts.mixing.questions import Question
from unalike.parts.privacy.guarantee import Guarantee
from unalike.parts.schedule import Sampled, Schedule
from unalike.parts.selection import Choosing
from unalike.parts.topology import Star, Topology
from unalike.parts.transform import Transform
from unalike.tree import Params, Tree

Start = Literal["fresh", "model", "own"]


class Filter(Protocol):
    """What a server does to uploads after they are weighted and before they are used."""

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """(stacked uploads, their weights), not necessarily as many as came in."""
        ...


@dataclass(frozen=True)
class Decay:
    """The learning rate's factor in round t."""

    kind: Literal["constant", "exponential", "cosine"] = "constant"
    rate: float = 1.0
    every: int = 1
    rounds: int = 1
    first: int = 0  # the round it begins with

    def __call__(self, t: int) -> float:
        """The factor."""
        t -= self.first
        if self.kind == "exponential":
            return float(self.rate ** (t // self.every))
        if self.kind == "cosine":
            return (1 + math.cos(math.pi * t / self.rounds)) / 2
        return 1.0


@runtime_checkable
class Inherits(Protocol):
    """A part that is made of the model, or of what else the stage before left."""

    def inherit(self, model: Params) -> Self:
        """The part with what it takes from that model."""
        ...


@dataclass(frozen=True)
class Recipe:
    """Everything about a federation's training except its data and its transport."""

    algorithm: Algorithm
    mixing: Mixing = ByExamples()
    schedule: Schedule = Sampled()
    topology: Topology = Star()
    transform: Transform | None = None
    channel: Channel = ()
    filters: tuple[Filter, ...] = ()
    guarantee: Guarantee | None = None
    batch_size: int = 32
    decay: Decay = Decay()
    fits: tuple[Callable[[Tensor], str], ...] = ()
    clock: Clock | None = None
    download: Channel = ()  # what a server's messages go through
    copies: Copies | None = None  # what nodes tell one another, if it is compressed

    @cached_property
    def needs(self) -> frozenset[str]:
        """The statistics clients report, and those of uploads that the server measures itself."""
        chosen = self.schedule.needs if isinstance(self.schedule, Choosing) else frozenset()
        return self.mixing.needs | self.algorithm.needs | chosen

    @property
    def survey(self) -> tuple[Question, ...]:
        """What every client is asked before the first round, for the weights or the schedule."""
        asked = (*self.mixing.survey, *getattr(self.schedule, "survey", ()))
        return tuple({q.name: q for q in reversed(asked)}.values())[::-1]

    @property
    def looks(self) -> bool:
        """Whether clients measure the received model before they train."""
        return "loss" in self.needs or bool(self.mixing.gauges)

    def misfit(self, x: Tensor) -> str:
        """Why a client's own features cannot be used, as a sentence; empty if they can."""
        return next(filter(None, (fit(x) for fit in self.fits)), "")

    def inherit(self, model: Params) -> "Recipe":
        """The recipe with what its parts take from the model of the stage before."""
        parts = {name: getattr(self, name) for name in ("algorithm", "mixing", "transform")}
        taken = {k: v.inherit(model) for k, v in parts.items() if isinstance(v, Inherits)}
        return replace(self, **taken) if taken else self  # type: ignore[arg-type]


@dataclass(frozen=True)
class Stage:
    """Some rounds of one recipe; a run is one stage or several.

    A later stage begins with ``model``, the one that the stage before arrived at, or ``fresh``,
    with the initial weights; or every client begins with its ``own``, the one it was judged by in
    the stage before, and the server with what was shared. Parts of its recipe may inherit from the
    model of the stage before in any case.
    """

    recipe: Recipe
    rounds: int
    start: Start = "fresh"


Program = tuple[Stage, ...]


class Kept(NamedTuple):
    """What a client keeps: the method's own part, and what its channel remembers."""

    mine: Any
    channel: tuple[Any, ...]


def client(
    recipe: Recipe, down: Any, kept: Kept, data: Batches, whole: Batches | None, ctx: Ctx
) -> tuple[Any, dict[str, Tensor], Kept]:
    """A client's whole round: (what travels, statistics, what to keep). Pure.

    ``whole`` is one pass over its training examples, given only where something about the received
    model is asked for: it is measured before training, in evaluation mode. What a client did is
    among the statistics, though nobody sends it: of how many samples it took a ``gradients``, and
    at how many it only ``looked``.
    """
    algorithm = recipe.algorithm
    up, own, mine = algorithm.client(down, kept.mine, data, ctx)
    drawn = data.draw.real.sum()
    stats = {"steps": data.steps.float(), "samples": drawn, "gradients": data.gradients, **own}
    stats["looked"] = torch.zeros_like(stats["gradients"])
    if whole is not None:
        received, task = algorithm.received(down, kept.mine), algorithm.task
        assert received is not None, "checked when the recipe was built"
        if "loss" in recipe.needs:
            stats["loss"] = average(task.each_loss, received, whole)
        for name, gauge in recipe.mixing.gauges.items():
            stats[name] = gauge(task, received, whole)
        looks = ("loss" in recipe.needs) + len(recipe.mixing.gauges)
        stats["looked"] += looks * whole.draw.real.sum()
    if not recipe.channel:
        return up, stats, Kept(mine, kept.channel)
    key = rng.fold_in(ctx.key, rng.ClientStream.CHANNEL)
    wire, memory = encode(recipe.channel, up, kept.channel, keys(recipe.channel, key))
    if recipe.channel:  # what is not sent is not accounted for
        memory = tree.where(ctx.reply, memory, kept.channel)
    return wire, stats, Kept(mine, memory)
