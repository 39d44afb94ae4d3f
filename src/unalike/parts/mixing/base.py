"""Mixing weights: how much each client's update counts, from a few numbers per client.

A rule sees statistics, never weights, so the heavy sum stays linear and can stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.tree import Params

if TYPE_CHECKING:
    from unalike.tasks import Task


class Question(Protocol):
    """Something every client is asked once, before the first round."""

    name: ClassVar[str]

    @property
    def reveals(self) -> str:
        """What the answer tells the server, in words."""
        ...

    @property
    def epsilon(self) -> float:
        """Differential privacy of the answer in single examples; 0: it is exact."""
        ...

    def answer(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """One client's answer from its training labels; the same shape for every client."""
        ...


class Gauge(Protocol):
    """A number that a client finds out about the received model, before it trains. Pure."""

    def __call__(self, task: "Task", w: Params, whole: Batches) -> Tensor:
        """The number, from one pass over the client's training examples."""
        ...


def restricted(p: Tensor, cohort: Cohort) -> Tensor:
    """A decision over all clients, renormalised over those that answered; uniform if they got 0."""
    mine = p[cohort.ids]
    total = mine.sum()
    return mine / total if total > 0 else torch.full_like(mine, 1 / len(mine))


class Mixing(Protocol):
    """A rule from a cohort's numbers to its weights."""

    @property
    def needs(self) -> frozenset[str]:
        """Statistics beyond examples and steps."""
        ...

    @property
    def survey(self) -> tuple[Question, ...]:
        """What every client is asked before the first round."""
        ...

    @property
    def gauges(self) -> Mapping[str, Gauge]:
        """How those of the needed statistics are measured that the engine does not know."""
        ...

    def init(self, n_clients: int) -> Any:
        """What the rule remembers before the first round."""
        ...

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        """(one weight per client of the cohort, next state); they need not sum to one."""
        ...

    def note(self, before: Any, after: Any) -> str:
        """What a person should know of a round, from the states around it; mostly nothing."""
        ...

    def logged(self, state: Any) -> dict[str, float]:
        """Numbers for the record of a round, from the state after it; mostly none."""
        ...


@runtime_checkable
class Proportional(Protocol):
    """A rule whose weights are in proportion to a number of each client's own.

    Then updates can be summed as they come, before the last client has answered.
    """

    def proportion(self, stats: dict[str, Tensor]) -> Tensor:
        """What each of some clients counts, up to a common factor."""
        ...


@dataclass(frozen=True)
class Memoryless:
    """A rule that needs no statistics, asks nothing and remembers nothing."""

    needs: ClassVar[frozenset[str]] = frozenset()
    gauges: ClassVar[Mapping[str, Gauge]] = MappingProxyType({})

    @property
    def survey(self) -> tuple[Question, ...]:
        """No question."""
        return ()

    def init(self, n_clients: int) -> tuple[()]:
        """No memory."""
        return ()

    def note(self, before: Any, after: Any) -> str:
        """Nothing to say."""
        return ""

    def logged(self, state: Any) -> dict[str, float]:
        """No numbers."""
        return {}
