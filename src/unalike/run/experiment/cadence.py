"""How often a run is evaluated by default: so that evaluation takes about a fifth of its work.

The rows that a round trains and those that an evaluation passes through a model both follow from
the configuration and the data. No clock is involved, so a run that is resumed or repeated is
evaluated in the same rounds. The number of times a method passes over a row does not count: methods
that differ in nothing else are evaluated in the same rounds, and one that computes more spends a
smaller share on it.
"""

import math
from typing import NamedTuple

from unalike.run.configuration.config import Config

AUTO = "auto"
PASSES = 3  # forward passes that a step on a row costs: one, and a backward pass worth two
# How many forward passes of a compiled step testing a row costs, its metrics included: LARGE where
# products are all there is, and what else is done to a row is worth the products of so many weights
# when it is TESTED or TRAINED. Measured, see 0091.
LARGE, TESTED, TRAINED = 1.4, 110_000, 56_000
SHARE = 4  # times as much as on evaluation is spent on training: a fifth of both
FEWEST = 5  # evaluations of a run that has so many rounds
SPARE = 0.1  # evaluations beyond what is paid for


class Cadence(NamedTuple):
    """In which rounds a run is evaluated."""

    every: int = 1  # rounds between two evaluations; the last round of a stage always is one
    why: str = "as set"


EVERY_ROUND = Cadence()


class Work(NamedTuple):
    """What a round and an evaluation go through."""

    trained: float  # rows of a round, as often as its epochs go over them
    tested: float  # rows that go through a model, as often as they do
    weights: int = 0  # of a model

    @property
    def cost(self) -> float:
        """How many forward passes of training a tested row is worth; more for small models."""
        return LARGE * (self.weights + TESTED) / (self.weights + TRAINED)

    @property
    def every(self) -> int:
        """Rounds that pay for an evaluation, however few a run has."""
        due = SHARE * self.cost * self.tested / max(PASSES * self.trained, 1.0)
        return max(1, math.ceil(due - 1e-9))


def within(every: int, rounds: int) -> int:
    """As often, but so that a run of so many rounds has five evaluations.

    The one after the last round comes beside the others. Where these are few, so that it would be
    more than a tenth beyond what is paid for, there is one less, and they are spread evenly.

    >>> within(9, 100), within(16, 100), within(16, 41), within(9, 8)
    (9, 17, 9, 1)
    """
    sparsest = max(1, (rounds - 1) // (FEWEST - 1))
    every = min(every, sparsest)
    judged = math.ceil(rounds / every)
    if judged * every <= (1 + SPARE) * rounds:
        return every
    return min(math.ceil(rounds / max(judged - 1, FEWEST)), sparsest)


def spaced(config: Config, every: int) -> Config:
    """One of several runs that are compared, evaluated in the rounds of the others.

    ``every`` so many rounds pay for an evaluation of any of them; 0 leaves it to each run.
    """
    if not every or config.evaluation.every != AUTO:
        return config
    judging = config.evaluation.model_copy(update={"every": within(every, config.rounds)})
    return config.model_copy(update={"evaluation": judging})


def as_set(config: Config) -> Cadence:
    """Where rows cannot be counted, as in a deployed run: what is set, or every round."""
    every = config.evaluation.every
    return Cadence(every) if isinstance(every, int) else Cadence(1, "clients test their rows")


def cadence(config: Config, work: Work, rounds: int) -> Cadence:
    """What is set, or what the work of a run with so many rounds pays for."""
    if isinstance(config.evaluation.every, int):
        return Cadence(config.evaluation.every)
    every = within(work.every, rounds)
    tested, trained = f"{work.tested:,.0f}", f"{work.trained:,.0f}"
    why = f"an evaluation tests {tested} rows and a round trains {trained}"
    if every < work.every:
        why += f"; a run has {FEWEST} evaluations or more"
    return Cadence(every, why)
