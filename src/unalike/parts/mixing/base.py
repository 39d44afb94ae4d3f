"""Mixing weights: how much each client's update counts, from a few numbers per client.

A rule sees statistics, never weights, so the heavy sum stays linear and can stream.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from unalike.rng import Key


class Question(Protocol):
    """Something every client is asked once, before the first round."""

    name: ClassVar[str]
    reveals: ClassVar[str]  # what the answer tells the server, in words

    def answer(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """One client's answer from its training labels; the same shape for every client."""
        ...


class Cohort(NamedTuple):
    """The clients that answered in one round, as a server sees them."""

    round: int
    ids: Tensor  # [n]
    stats: dict[str, Tensor]  # name -> [n]; always holds examples and steps
    survey: dict[str, Tensor]  # name -> [N, ...], one row per client
    known: Tensor  # [m] the clients whose survey answers this server holds
    key: Key  # for whatever is random on the server in this round

    @property
    def share(self) -> Tensor:
        """n_k / sum of n over the cohort."""
        n = self.stats["examples"]
        return n / n.sum()


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

    def init(self, n_clients: int) -> Any:
        """What the rule remembers before the first round."""
        ...

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        """(one weight per client of the cohort, next state); they need not sum to one."""
        ...


@dataclass(frozen=True)
class Memoryless:
    """A rule that needs no statistics, asks nothing and remembers nothing."""

    needs: ClassVar[frozenset[str]] = frozenset()

    @property
    def survey(self) -> tuple[Question, ...]:
        """No question."""
        return ()

    def init(self, n_clients: int) -> tuple[()]:
        """No memory."""
        return ()
