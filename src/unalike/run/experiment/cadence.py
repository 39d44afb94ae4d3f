"""How often a run is evaluated by default: for a fifth of its work, or for a quarter of a second.

The rows that a round trains and those that an evaluation passes through a model both follow from
the configuration and the data. No clock is involved, so a run that is resumed or repeated is
evaluated in the same rounds. The number of times a method passes over a row does not count: methods
that differ in nothing else are evaluated in the same rounds, and one that computes more spends a
smaller share on it.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from unalike.run.configuration.config import Config

AUTO = "auto"
# Measured, see 0095. What is done to a row beside products is worth the products of so many
# weights when it is TRAINED or TESTED, its metrics included. Calls are worth so many products in
# a ROUND, an EVALUATION, and for each CLIENT in it, however few rows there are.
PASSES = 3  # forward passes that a step on a row costs: one, and a backward pass worth two
TRAINED, TESTED = 56_000, 110_000
ROUND, EVALUATION, CLIENT = 60_000_000, 100_000_000, 10_000_000
LARGE = 1.4  # forward passes of a compiled step that testing a row of a large model costs
SLOWER = 1.5  # times as much a step costs that is not compiled
SHARE = 4  # times as much as on evaluation is spent on training: a fifth of both
FREE = 10_000_000_000  # products of evaluations that nobody waits for: a quarter of a second,
REUSED = 30  # where convolutions and recurrent layers use a weight so many times for a row
FEWEST = 2  # evaluations of a run of two rounds or more, so that there is a course and a choice
SPARE = 0.05  # evaluations beyond what is paid for


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
    clients: int = 1  # that are tested
    dense: bool = True  # whether a row uses each weight once
    compiled: bool = True  # whether steps are, where there is a compiler

    def every(self, rounds: int) -> int:
        """Rounds that pay for an evaluation, in a run of so many.

        A run has as many as take a quarter of a second in all, at least.
        """
        return min(self.paid, max(1, math.ceil(rounds / max(FREE // self._taken, 1))))

    @property
    def paid(self) -> int:
        """Rounds whose work is four times that of an evaluation."""
        played = PASSES * (self.weights + TRAINED) * self.trained
        played = ROUND + (played if self.compiled else SLOWER * played)
        return max(1, math.ceil(SHARE * self._judged / played - 1e-9))

    @property
    def _judged(self) -> float:
        return LARGE * (self.weights + TESTED) * self.tested + EVALUATION + CLIENT * self.clients

    @property
    def _taken(self) -> float:
        return self._judged if self.dense else REUSED * self._judged


def sparsest(works: Iterable[Work], rounds: int) -> int:
    """Rounds that pay for an evaluation of any of them; 0 if there is nothing to go by."""
    return max((work.every(rounds) for work in works), default=0)


def within(every: int, rounds: int) -> int:
    """As often in a run of so many rounds, but twice at least, if it has two.

    The one after the last round comes beside the others. If it exceeds what is paid for by more
    than a twentieth there is one less, and they are spread evenly.

    >>> within(9, 100), within(16, 100), within(16, 41), within(9, 8)
    (10, 17, 21, 4)
    """
    judged = math.ceil(rounds / every)
    if judged * every > (1 + SPARE) * rounds:
        judged -= 1
    return math.ceil(rounds / max(judged, min(FEWEST, rounds)))


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
    due = work.every(rounds)
    every = within(due, rounds)
    tested, trained = f"{work.tested:,.0f}", f"{work.trained:,.0f}"
    why = f"an evaluation tests {tested} rows and a round trains {trained}"
    if due < work.paid:
        why += "; all evaluations take a quarter of a second or less"
    elif rounds < FEWEST * due:
        why += f"; a run has {FEWEST} evaluations or more"
    return Cadence(every, why)
