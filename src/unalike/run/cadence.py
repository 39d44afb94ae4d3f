"""How often a run is evaluated if that is left to it: as often as a fifth of its work pays for.

A round trains so many rows, an evaluation puts so many through a model; both follow from the
configuration and the data. No clock is asked, so a run that is resumed or repeated is evaluated in
the same rounds. How often a method goes over a row does not count: methods that differ in nothing
else are evaluated alike, and one that computes more spends a smaller share on it.
"""

import math
from typing import NamedTuple

from unalike.run.config import Config

AUTO = "auto"
PASSES = 3  # forward passes that a step on a row costs: one, and a backward pass worth two
COST = 2.0  # forward passes that testing a row costs, its metrics included; measured, see 0080
SHARE = 4  # times as much as on evaluation is spent on training: a fifth of both
FEWEST = 5  # evaluations of a run that has so many rounds


class Cadence(NamedTuple):
    """In which rounds a run is evaluated."""

    every: int = 1  # rounds between two evaluations; the last round of a stage always is one
    why: str = "as set"


EVERY_ROUND = Cadence()


class Work(NamedTuple):
    """What a round and an evaluation go through."""

    trained: float  # rows of a round, as often as its epochs go over them
    tested: float  # rows that go through a model, as often as they do

    @property
    def every(self) -> int:
        """Rounds that pay for an evaluation, however few a run has.

        One is due in every round that trains as many rows as it tests: with all clients on ordinary
        splits, where it takes a fifth to a third of the time.
        """
        if self.tested <= self.trained:
            return 1
        due = SHARE * COST * self.tested / max(PASSES * self.trained, 1.0)
        return max(1, math.ceil(due - 1e-9))


def within(every: int, rounds: int) -> int:
    """As often, but so that a run of so many rounds has five evaluations.

    >>> within(9, 100), within(9, 41), within(9, 8)
    (9, 8, 1)
    """
    return min(every, max(1, rounds // FEWEST))


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
