"""Mixing weights: how much each client's update counts, from a few numbers per client.

A rule sees statistics, never weights, so the heavy sum stays linear and can stream.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from unalike import tree
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.errors import RunError
from unalike.parts.mixing.questions import Question
from unalike.tasks import Task
from unalike.tree import Params

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Gauge(Protocol):
    """A number that a client measures on the received model before it trains. Pure."""

    def __call__(self, task: Task, w: Params, whole: Batches) -> Tensor:
        """The number, from one pass over the client's training examples."""
        ...


class Weighed(NamedTuple):
    """A rule's answer to a cohort."""

    p: Tensor  # [n] one weight per client of the cohort; they sum to one unless ``scaled``
    state: Any = ()  # what the rule remembers
    note: str = ""  # what a person should know of this round; mostly nothing
    logged: Mapping[str, float | Tensor] = NOTHING  # for the record; a tensor has a row per client


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

    @property
    def fixed(self) -> bool:
        """Whether weights follow from survey and sizes alone, so that all clients have theirs."""
        ...

    def init(self, n_clients: int) -> Any:
        """What the rule remembers before the first round."""
        ...

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """The weights of a cohort, and what the rule remembers, says and records of it."""
        ...


@runtime_checkable
class Proportional(Protocol):
    """A rule whose weights are in proportion to a number of each client's own.

    Then updates can be summed as they come, before the last client has answered.
    """

    def proportion(self, stats: dict[str, Tensor]) -> Tensor:
        """What each of some clients counts, up to a common factor."""
        ...


def checked(rule: Mixing, answer: Any, n: int) -> Weighed:
    """A rule's answer for ``n`` clients, if it keeps to what an answer is."""
    name = type(rule).__name__
    if not isinstance(answer, tuple) or not 1 <= len(answer) <= 4:
        raise RunError(f"'weights' of {name} must return Weighed(p, state), got {answer!r:.60}.")
    found = Weighed(*answer)
    p = found.p
    if not isinstance(p, Tensor) or not p.is_floating_point() or p.shape != (n,):
        what = f"{p.dtype} of shape {tuple(p.shape)}" if isinstance(p, Tensor) else f"{p!r:.60}"
        raise RunError(
            f"{name} must give one floating-point weight to each of {n} clients, got {what}."
        )
    try:
        odd = [x for x in tree.leaves(found.state) if not isinstance(x, Tensor)]
    except RecursionError:
        raise RunError(f"the state of {name} is nested too deeply, or holds itself.") from None
    if odd:
        raise RunError(f"{name} must keep tensors as its state, got {odd[0]!r:.60}.")
    if not bool(torch.isfinite(p).all()) or bool((p < 0).any()):
        some = [round(float(x), 6) for x in p[:5]]
        raise RunError(f"the weights of {name} must be finite and not negative, got {some}.")
    total = float(p.sum())
    if not getattr(rule, "scaled", False) and abs(total - 1) > 1e-3:
        raise RunError(
            f"the weights of {name} sum to {total:.6g}; divide them by their sum, or set 'scaled "
            "= True' in its class if they include the length of the step."
        )
    return found


class Memoryless:
    """A rule that needs no statistics, asks no question and keeps no memory."""

    needs: ClassVar[frozenset[str]] = frozenset()
    scaled: ClassVar[bool] = False  # whether weights hold the length of the step: no sum of one
    learns: ClassVar[bool] = False  # whether it learns, from round to round, weights of the same
    # clients: where every client is its own server each learns those of its neighbours

    @property
    def survey(self) -> tuple[Question, ...]:
        """No question."""
        return ()

    @property
    def gauges(self) -> Mapping[str, Gauge]:
        """No number that only this rule knows."""
        return NOTHING

    @property
    def fixed(self) -> bool:
        """Where no statistic of a round is needed."""
        return not self.needs

    def init(self, n_clients: int) -> Any:
        """No memory."""
        return ()


def restricted(p: Tensor, cohort: Cohort) -> Tensor:
    """A decision over all clients, renormalised over those that answered; uniform if they got 0."""
    mine = p[cohort.ids]
    total = mine.sum()
    return mine / total if total > 0 else torch.full_like(mine, 1 / len(mine))


class Rescaled:
    """A rule that asks what another one asks, and changes the length of the step by its weights."""

    rule: Mixing
    fixed: ClassVar[bool] = False
    scaled: ClassVar[bool] = True

    @property
    def needs(self) -> frozenset[str]:
        """The rule's."""
        return self.rule.needs

    @property
    def survey(self) -> tuple[Question, ...]:
        """The rule's."""
        return self.rule.survey

    @property
    def gauges(self) -> Mapping[str, Gauge]:
        """The rule's."""
        return self.rule.gauges

    def init(self, n_clients: int) -> Any:
        """The rule's memory."""
        return self.rule.init(n_clients)
