"""Terms a client adds to its loss; each may keep a small state on the server."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from unalike.cohort import Cohort
from unalike.tree import Params


class Term(Protocol):
    """A penalty on local weights ``w`` that received ``x``; ``coefficient`` is broadcast."""

    @property
    def needs(self) -> frozenset[str]:
        """Statistics its server half reads."""
        ...

    @property
    def pull(self) -> float | None:
        """mu, if the penalty is mu/2 ||w - x||^2 with the same mu in every round; else None."""
        ...

    def init(self) -> Any:
        """The server-side state; its field ``coefficient`` is broadcast."""
        ...

    def update(self, state: Any, cohort: Cohort) -> Any:
        """The state after a round."""
        ...

    def __call__(self, coefficient: Tensor, w: Params, x: Params) -> Tensor | float:
        """The penalty."""
        ...


@dataclass(frozen=True)
class Nothing:
    """No term."""

    needs: ClassVar[frozenset[str]] = frozenset()
    pull: ClassVar[float] = 0.0

    def init(self) -> tuple[()]:
        """No state."""
        return ()

    def update(self, state: tuple[()], cohort: Cohort) -> tuple[()]:
        """No change."""
        return state

    def __call__(self, coefficient: Tensor, w: Params, x: Params) -> float:
        """Zero."""
        return 0.0
