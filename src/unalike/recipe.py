"""A recipe: a method with the parts around it, the same in simulation and over a network."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from unalike import rng
from unalike.algorithm import Algorithm, Ctx, Receives
from unalike.batches import Batches, average
from unalike.parts.mixing.base import Cohort, Mixing
from unalike.parts.mixing.examples import ByExamples
from unalike.parts.privacy.accountant import Guarantee
from unalike.parts.schedule import Sampled, Schedule
from unalike.parts.topology import Star, Topology
from unalike.rng import Key


class Transform(Protocol):
    """A change to a client's own data: which examples to repeat, and how to alter the repeats."""

    def repeats(self, labels: np.ndarray, classes: int, key: Key) -> np.ndarray:
        """Positions of the client's examples to add variants of."""
        ...

    def apply(self, x: Tensor, altered: Tensor, key: Key) -> Tensor:
        """The features of a minibatch with the marked rows altered."""
        ...


class Release(Protocol):
    """What a client does to its upload before it leaves: clipping, noise."""

    def __call__(self, up: Any, key: Key) -> Any:
        """The upload as it is sent."""
        ...


class Filter(Protocol):
    """What a server does to uploads after they are weighted and before they are used."""

    def __call__(self, ups: Any, p: Tensor, cohort: Cohort) -> tuple[Any, Tensor]:
        """(stacked uploads, their weights), not necessarily as many as came in."""
        ...


@dataclass(frozen=True)
class Recipe:
    """Everything about a federation's training but its data and its transport."""

    algorithm: Algorithm
    mixing: Mixing = ByExamples()
    schedule: Schedule = Sampled()
    topology: Topology = Star()
    transform: Transform | None = None
    release: Release | None = None
    filters: tuple[Filter, ...] = ()
    guarantee: Guarantee | None = None

    @property
    def needs(self) -> frozenset[str]:
        """The statistics clients report, and those of uploads that the server measures itself."""
        return self.mixing.needs | self.algorithm.needs

    @property
    def looks(self) -> bool:
        """Whether clients measure the received model before they train."""
        return "loss" in self.needs or bool(self.mixing.gauges)


def client(
    recipe: Recipe, down: Any, mine: Any, data: Batches, whole: Batches | None, ctx: Ctx
) -> tuple[Any, dict[str, Tensor], Any]:
    """A client's whole round: (upload, statistics, what to keep). Pure.

    ``whole`` is one pass over its training examples, given only where something about the received
    model is asked for: it is measured before training, in evaluation mode.
    """
    algorithm = recipe.algorithm
    up, stats, kept = algorithm.client(down, mine, data, ctx)
    if whole is not None:
        asked = algorithm.received if isinstance(algorithm, Receives) else algorithm.personal
        received = asked(down, mine)
        assert received is not None, "checked when the recipe was built"
        task = algorithm.task
        if "loss" in recipe.needs:
            stats = {**stats, "loss": average(lambda b: task.each_loss(received, b), whole)}
        found = {name: gauge(task, received, whole) for name, gauge in recipe.mixing.gauges.items()}
        stats = {**stats, **found}
    if recipe.release is not None:
        up = recipe.release(up, rng.fold_in(ctx.key, 11))
    return up, stats, kept
