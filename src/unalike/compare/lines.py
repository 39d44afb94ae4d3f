"""The parts of an analysis: lines, verdicts, and all of them together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from unalike.compare.heterogeneity import Gamma
from unalike.compare.statistics.paired import Outcome
from unalike.compare.statistics.ranks import Ranks
from unalike.compare.statistics.reuse import Reuse
from unalike.compare.statistics.summary import Summary
from unalike.compare.uses import Use

Standing = Literal["best", "close", "level", "equal", "missing", "one seed"]
OVERALL = "all conditions"


class Versus(NamedTuple):
    """The difference to the baseline over the seeds both have; positive means larger."""

    n: int
    mean: float
    low: float | None  # of the interval of this difference alone
    high: float | None
    p: float | None
    effect: float | None  # Cohen's d of paired differences
    low_corrected: float | None  # of the level of the corrected test
    high_corrected: float | None
    p_corrected: float | None
    detectable: float | None  # the least true difference that 80 of 100 comparisons find


class Speed(NamedTuple):
    """What a method spent until the target, against the baseline."""

    reached: int  # by so many runs
    of: int
    spent: float | None  # mean over the runs that reached it
    ratio: float | None = None  # to the baseline's, geometric mean over seeds
    low: float | None = None  # of its interval, corrected; none if the baseline missed the target
    high: float | None = None  # none if the method missed it
    p: float | None = None  # corrected
    outcome: Outcome | None = None  # a win is faster


@dataclass(frozen=True)
class Line:
    """A method under a condition, or over all of them."""

    label: str
    condition: str
    values: dict[int, float]  # seed -> the compared number
    asked: int  # for how many seeds
    summary: Summary
    beside: dict[str, float | None]  # means over seeds of the other columns of a table
    ledger: dict[str, float]  # means over seeds
    versus: Versus | None  # the baseline; None for the baseline itself
    outcome: Outcome | None
    best: bool
    more: list[Use]  # than its budget or the baseline
    less: list[Use]  # than its budget
    judged: list[tuple[int, int]] = field(default_factory=list)  # clients with a value, of all
    speed: dict[str, Speed] = field(default_factory=dict)  # rounds, bytes, seconds

    @property
    def differs(self) -> bool:
        """From the baseline, by the corrected test."""
        return self.outcome in ("win", "loss")


@dataclass(frozen=True)
class Verdict:
    """Who leads a condition, and how far that may be claimed."""

    condition: str
    leader: str
    standing: Standing
    seeds: int  # that all methods with results have
    p: float | None = None  # the largest that counts, corrected over the conditions
    rivals: list[str] = field(default_factory=list)  # whom the leader is not proven to beat

    @property
    def clear(self) -> bool:
        """Whether the leader is the best beyond chance."""
        return self.standing == "best"


@dataclass(frozen=True)
class Analysis:
    """A whole comparison."""

    lines: list[Line]
    verdicts: list[Verdict]
    overall: list[Line] = field(default_factory=list)  # over all conditions, if there are several
    reuse: Sequence[Reuse] = ()  # what the seeds of each condition share
    tests: int = 0  # that p is corrected over
    ranks: Ranks | None = None  # of the methods in their order, from five conditions on
    gammas: Sequence[Gamma] = ()  # what one model for all costs, where that is known

    def at(self, condition: str) -> list[Line]:
        """The lines of one condition."""
        return [line for line in self.lines if line.condition == condition]

    def of(self, label: str) -> list[Line]:
        """The lines of one method."""
        return [line for line in self.lines if line.label == label]
