"""Terms a client adds to its loss; each may keep a small state on the server."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from unalike import tree
from unalike.cohort import Cohort
from unalike.tree import Params


class Term(Protocol):
    """A penalty on local weights ``w`` that received ``x``; ``coefficient`` is broadcast."""

    @property
    def needs(self) -> frozenset[str]:
        """Statistics its server half reads."""
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


class Fixed(NamedTuple):
    """The state of a term that never changes."""

    coefficient: Tensor


@dataclass(frozen=True)
class Nothing:
    """No term."""

    needs = frozenset[str]()

    def init(self) -> tuple[()]:
        """No state."""
        return ()

    def update(self, state: tuple[()], cohort: Cohort) -> tuple[()]:
        """No change."""
        return state

    def __call__(self, coefficient: Tensor, w: Params, x: Params) -> float:
        """Zero."""
        return 0.0


def _pull(mu: Tensor, w: Params, x: Params) -> Tensor:
    return 0.5 * mu * tree.sqnorm(tree.sub(w, x))


@dataclass(frozen=True)
class Proximal:
    """mu/2 ||w - x||^2 (FedProx, eq. 2)."""

    mu: float
    needs = frozenset[str]()

    def init(self) -> Fixed:
        """A constant mu."""
        return Fixed(torch.tensor(self.mu))

    def update(self, state: Fixed, cohort: Cohort) -> Fixed:
        """No change."""
        return state

    def __call__(self, coefficient: Tensor, w: Params, x: Params) -> Tensor:
        """The penalty."""
        return _pull(coefficient, w, x)


class Adapting(NamedTuple):
    """mu, the last global loss, and how often in a row it fell."""

    coefficient: Tensor
    loss: Tensor
    falls: Tensor


@dataclass(frozen=True)
class AdaptiveProximal:
    """The proximal term with FedProx's heuristic for mu (section 5.3.2).

    mu grows by ``step`` when the global loss rises, and shrinks by it after ``patience`` falls in
    a row; it never becomes negative. A loss that stays the same is neither: it ends a row of falls.
    """

    mu: float
    step: float = 0.1
    patience: int = 5
    needs = frozenset({"loss"})

    def init(self) -> Adapting:
        """The first mu, before any loss is known."""
        return Adapting(torch.tensor(self.mu), torch.tensor(torch.inf), torch.zeros(()))

    def update(self, state: Adapting, cohort: Cohort) -> Adapting:
        """The next mu from the size-weighted loss of the received model."""
        mu, loss, falls = state
        new = (cohort.share * cohort.stats["loss"]).sum().to(loss)
        rose = new > loss
        falls = torch.where(new < loss, falls + 1, 0.0) if torch.isfinite(loss) else falls
        if rose:
            mu = mu + self.step
        elif falls >= self.patience:
            mu, falls = (mu - self.step).clamp(min=0), torch.zeros_like(falls)
        return Adapting(mu, new, falls)

    def __call__(self, coefficient: Tensor, w: Params, x: Params) -> Tensor:
        """The penalty."""
        return _pull(coefficient, w, x)
