"""FedDisco's weights (Ye et al. 2023): size minus discrepancy, cut off at zero.

u_k = max(0, n_k / sum of n - a d_k + b);   p_k = u_k / sum of u        (all over the cohort)

Where every u_k is zero the formula has no answer, and the authors' code none either; here a policy
gives one and the round is noted.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.errors import ConfigError, RunError
from unalike.parts.mixing.base import Memoryless, Question
from unalike.parts.mixing.questions import LabelCounts

Discrepancy = Literal["kl", "l1", "l2", "cosine"]
Normalise = Literal["kl", "always", "never"]
AllZero = Literal["size", "error", "one_hot_min_d"]
_ROUNDING = 1e-12


class Fallbacks(NamedTuple):
    """How many rounds had no positive weight."""

    fallbacks: Tensor


@dataclass(frozen=True)
class Disco:
    """The formula, and what happens where it gives nobody a weight."""

    a: float = 0.5
    b: float = 0.1
    on_all_zero: AllZero = "size"

    def __call__(self, share: Tensor, d: Tensor) -> tuple[Tensor, bool]:
        """(weights that sum to one, whether the formula gave none).

        >>> p, _ = Disco()(torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.1, 0.4, 0.9]))
        >>> [round(float(x), 6) for x in p]
        [0.733333, 0.266667, 0.0]
        """
        u = share - self.a * d + self.b
        u = torch.where(u > _ROUNDING, u, 0.0)  # a zero in arithmetic may be 1e-17 here
        if float(u.sum()) > 0:
            return u / u.sum(), False
        if self.on_all_zero == "error":
            raise RunError(
                f"every client's weight is zero: discrepancies from {float(d.min()):.4g} to "
                f"{float(d.max()):.4g} are too large for a = {self.a:g} and b = {self.b:g}; lower "
                "a, raise b, or set on_all_zero = 'size'."
            )
        if self.on_all_zero == "size":
            return share, True
        return torch.zeros_like(share).index_fill(0, d.argmin(), 1.0), True

    def note(self, before: Fallbacks, after: Fallbacks) -> str:
        """One sentence if the formula gave nobody a weight."""
        if int(after.fallbacks) == int(before.fallbacks):
            return ""
        instead = "sizes" if self.on_all_zero == "size" else "the least discrepancy alone"
        return f"every client's weight was zero, so they were weighted by {instead}"


def discrepancies(q: Tensor, reference: Tensor, kind: Discrepancy) -> Tensor:
    """How far each row of ``q``, a label distribution, is from the reference, [K].

    >>> discrepancies(torch.tensor([[0.8, 0.2]]), torch.tensor([0.5, 0.5]), "l1")
    tensor([0.6000])
    """
    if kind == "kl":
        d = (torch.xlogy(q, q) - torch.xlogy(q, reference)).sum(1)
    elif kind == "cosine":
        d = 1 - torch.cosine_similarity(q, reference[None], dim=1)
    else:
        d = torch.linalg.vector_norm(q - reference, ord=1 if kind == "l1" else 2, dim=1)
    return torch.where(d > _ROUNDING, d, 0.0)  # or dividing by the sum would blow up rounding


def by_sum(d: Tensor) -> Tensor:
    """The vector divided by its sum; zeros stay zeros."""
    return d / d.sum() if float(d.sum()) > 0 else d


@dataclass(frozen=True)
class LabelDisco(Memoryless):
    """FedDisco: the discrepancy of a client's labels from those of the test data."""

    classes: int
    rule: Disco
    kind: Discrepancy = "kl"
    normalise: Normalise = "kl"
    reference: tuple[float, ...] | None = None  # None: uniform
    survey_epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.reference is not None and len(self.reference) != self.classes:
            raise ConfigError(
                f"method.reference gives {len(self.reference)} shares, but there are "
                f"{self.classes} classes; give one share for each."
            )

    @property
    def survey(self) -> tuple[Question, ...]:
        """Label counts, once."""
        return (LabelCounts(self.survey_epsilon),)

    def init(self, n_clients: int) -> Fallbacks:  # type: ignore[override]
        """No fallback yet."""
        return Fallbacks(torch.zeros((), dtype=torch.int64))

    def weights(self, state: Fallbacks, cohort: Cohort) -> tuple[Tensor, Fallbacks]:
        """Everything over the cohort: shares, the sum of d, and the weights."""
        counts = cohort.survey["label_counts"][cohort.ids].double()
        q = counts / counts.sum(1, keepdim=True)
        d = discrepancies(q, self._reference(), self.kind)
        if self.normalise == "always" or self.normalise == self.kind:
            d = by_sum(d)
        p, none = self.rule(cohort.share, d)
        return p, Fallbacks(state.fallbacks + none)

    def note(self, before: Any, after: Any) -> str:
        """Whether the formula gave nobody a weight."""
        return self.rule.note(before, after)

    def _reference(self) -> Tensor:
        shares = self.reference or (1.0,) * self.classes
        r = torch.tensor(shares, dtype=torch.float64)
        return r / r.sum()
