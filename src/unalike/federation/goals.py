"""What a partitioner was asked for against what the clients got."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unalike.federation.skew import emd


class Goal(NamedTuple):
    """An EMD that a partitioner's settings ask for, of all clients or of those with a mark.

    The EMD of all clients is the weighted one against their pooled labels. That of some of them is
    the plain mean against ``centre``, around which their label mixes were drawn.
    """

    what: str
    emd: float
    mark: str = ""
    centre: tuple[float, ...] = ()


class Outcome(NamedTuple):
    """A goal and its result in the training rows, before any shift of labels."""

    what: str
    asked: float
    got: float

    def __str__(self) -> str:
        return f"{self.what}: asked for {self.asked:.3f}, got {self.got:.3f}"


def outcomes(
    goals: Sequence[Goal], counts: np.ndarray, marks: Sequence[Sequence[str]]
) -> tuple[Outcome, ...]:
    """Every goal with what the clients got; one whose clients are all held out is left out.

    Args:
        goals: What was asked for.
        counts: Training examples by client and class.
        marks: What sets each of these clients apart.
    """
    found: list[Outcome] = []
    for goal in goals:
        if not goal.mark:
            found.append(Outcome(goal.what, goal.emd, emd(counts)))
            continue
        own = counts[[goal.mark in mine for mine in marks[: len(counts)]]]
        if len(own):
            mixes = own / own.sum(axis=1, keepdims=True)
            got = float(np.abs(mixes - np.array(goal.centre)).sum(axis=1).mean())
            found.append(Outcome(goal.what, goal.emd, got))
    return tuple(found)
