"""How much better the best fixed weights would have been, in hindsight (Hahn et al. 2024).

regret = sum_t l_t(p_t) - min_p sum_t l_t(p),    l_t(p) = -log(1 + <p, r_t>)

AAggFF-S:          at most 2 L K (1 + log(1 + T / 16K)),   L = C2 / (1 + C1), responses in [C1, C2]
AAggFF-D:          at most 2 L sqrt(T log K);   L = C + 2 for its linearised losses <g_t, p>, which
                   no client outside the cohort is needed for; L = C2 / (1 + C1) for l_t if C = 1,
                   which is proven for exact gradients and not for linearised ones
"""

import math
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unalike.parts.mixing.simplex import Vector, minimise


class Hindsight(NamedTuple):
    """Everything the regret of a rule's decisions so far is told from; tensors of fixed shape."""

    responses: Tensor  # [rounds, clients], zeros where they are still to come
    seen: Tensor  # rounds
    paid: Tensor  # decision losses of the decisions that were made
    best: Tensor  # the weights of least total decision loss

    @classmethod
    def before(cls, rounds: int, uniform: Tensor) -> Self:
        """Nothing is seen yet."""
        nothing = torch.zeros((), dtype=torch.float64)
        empty = torch.zeros(rounds, len(uniform), dtype=torch.float64)
        return cls(empty, nothing.long(), nothing, uniform)

    def after(self, p: Tensor, r: Tensor) -> Self:
        """One more round: the decision ``p``, made before its responses ``r`` were seen."""
        t, responses = int(self.seen), self.responses
        if t == len(responses):  # more rounds than were planned
            responses = torch.cat([responses, torch.zeros_like(r)[None]])
        responses = responses.index_put((self.seen,), r)
        best = best_fixed(responses[: t + 1].numpy(), start=self.best.numpy())
        paid = self.paid - torch.log1p(p @ r)
        return type(self)(responses, self.seen + 1, paid, torch.from_numpy(best))

    @property
    def regret(self) -> float:
        """What was paid beyond the best fixed weights."""
        return float(self.paid + torch.log1p(self.responses @ self.best).sum())


def regret(responses: ArrayLike, decisions: ArrayLike) -> float:
    """The regret of ``decisions`` against ``responses``, both [rounds, clients].

    The decision of a round is the one made before that round's responses were seen.
    """
    r, p = np.asarray(responses, dtype=float), np.asarray(decisions, dtype=float)
    best = best_fixed(r)
    return float(np.log1p(r @ best).sum() - np.log1p((p * r).sum(1)).sum())


def best_fixed(responses: ArrayLike, gap: float = 1e-10, start: Vector | None = None) -> Vector:
    """The weights of least total decision loss, to within ``gap`` per round.

    Damped Newton steps on the simplex: the loss is self-concordant, so they need no line search.
    ``start`` changes the time, and the result within the gap.
    """
    x = 1 + np.asarray(responses, dtype=float)  # -log <p, x>: a log-optimal portfolio
    rounds, n = x.shape
    p = np.full(n, 1 / n) if start is None else start
    for _ in range(200):
        scaled = x / (x @ p)[:, None]
        slope = -scaled.sum(0)
        if slope @ p - slope.min() <= gap * rounds:  # bounds what is left to gain
            break
        H = scaled.T @ scaled
        H[np.diag_indices(n)] += 1e-9 * H.diagonal().max()  # clients may respond equally
        d = minimise(H, slope - H @ p, start=p) - p
        p = p + d / (1 + math.sqrt(d @ H @ d))
    return p


def bound_s(rounds: int, clients: int, low: float = 0.0, high: float | None = None) -> float:
    """AAggFF-S's bound; ``high`` is one over the number of clients unless given."""
    high = 1 / clients if high is None else high
    return 2 * high / (1 + low) * clients * (1 + math.log1p(rounds / (16 * clients)))


def bound_d(rounds: int, clients: int, lipschitz: float = 1.0) -> float:
    """AAggFF-D's bound for gradients of at most ``lipschitz`` in every entry."""
    return 2 * lipschitz * math.sqrt(rounds * math.log(clients))
