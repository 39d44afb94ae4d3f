"""How much better the best fixed weights would have been, seen afterwards (Hahn et al. 2024).

regret = sum_t l_t(p_t) - min_p sum_t l_t(p),    l_t(p) = -log(1 + <p, r_t>)

AAggFF-S:          at most 2 L K (1 + log(1 + T / 16K))
AAggFF-D, C = 1:   at most 2 L sqrt(T log K),         L = C2 / (1 + C1) for responses in [C1, C2]
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from unalike.parts.mixing.simplex import Vector, minimise


def regret(responses: ArrayLike, decisions: ArrayLike) -> float:
    """The regret of ``decisions`` against ``responses``, both [rounds, clients].

    The decision of a round is the one made before that round's responses were seen.
    """
    r, p = np.asarray(responses, dtype=float), np.asarray(decisions, dtype=float)
    best = best_fixed(r)
    return float(np.log1p(r @ best).sum() - np.log1p((p * r).sum(1)).sum())


def best_fixed(responses: ArrayLike, gap: float = 1e-10) -> Vector:
    """The weights of least total decision loss, to within ``gap`` per round.

    Damped Newton steps on the simplex: the loss is self-concordant, so they need no line search.
    """
    x = 1 + np.asarray(responses, dtype=float)  # -log <p, x>: a log-optimal portfolio
    rounds, n = x.shape
    p = np.full(n, 1 / n)
    for _ in range(200):
        scaled = x / (x @ p)[:, None]
        slope = -scaled.sum(0)
        if slope @ p - slope.min() <= gap * rounds:  # bounds what is left to gain
            break
        H = scaled.T @ scaled
        H[np.diag_indices(n)] += 1e-9 * H.diagonal().max()  # clients may respond alike
        d = minimise(H, slope - H @ p, start=p) - p
        p = p + d / (1 + math.sqrt(d @ H @ d))
    return p


def bound_s(rounds: int, clients: int, low: float = 0.0, high: float | None = None) -> float:
    """AAggFF-S's bound; ``high`` is one over the number of clients unless given."""
    high = 1 / clients if high is None else high
    return 2 * high / (1 + low) * clients * (1 + math.log1p(rounds / (16 * clients)))


def bound_d(rounds: int, clients: int, low: float = 0.0, high: float = 1.0) -> float:
    """AAggFF-D's bound where every client takes part in every round."""
    return 2 * high / (1 + low) * math.sqrt(rounds * math.log(clients))
