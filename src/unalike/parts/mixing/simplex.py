"""The probability simplex: Euclidean projection, and quadratic programs on it.

minimise 1/2 p'Ap + b'p  over  sum p = 1, low_i <= p_i <= high_i  (A symmetric positive definite)
KKT: Ap + b + nu 1 = s;  s_i >= 0 where p_i = low_i, s_i <= 0 where p_i = high_i, else s_i = 0

Guess which entries lie on a bound, solve the linear system of the others exactly, and let the signs
of p and s correct the guess: the primal-dual active set method (Hintermueller et al. 2003), which
needs one to three systems if the last round's answer is the guess. It may cycle; then the primal
active set method takes over, which only descends (Nocedal & Wright 2006, Alg. 16.3).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

_DIRECT = 192  # up to so many unknowns a factorisation is cheaper than iterating
_GUESSES = 20
_ROUNDING = 1e-13
_EDGE = 1e-14  # an entry this near to a bound lies on it


def project(v: Vector) -> Vector:
    """The nearest point of the simplex (Duchi et al. 2008, Fig. 1).

    >>> project(np.array([0.5, 0.5, 2.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    v = v - v.max()  # the projection does not see a constant; a huge one would swallow the 1 below
    down = np.sort(v)[::-1]
    excess = (np.cumsum(down) - 1) / np.arange(1, len(v) + 1)
    tau = excess[np.flatnonzero(down > excess)[-1]]
    return np.maximum(v - tau, 0.0)


def minimise(
    A: Matrix,
    b: Vector,
    *,
    within: float = 1.0,
    centre: Vector | None = None,
    start: Vector | None = None,
) -> Vector:
    """The minimiser of 1/2 p'Ap + b'p over the simplex, no entry further than ``within`` from 1/n.

    Or from the entry of ``centre``, a point of the simplex; it is always allowed, so there is
    always an answer. ``start`` says which entries are likely to lie on a bound; it changes the
    time, not the result.
    """
    inside = np.full(len(b), 1 / len(b)) if centre is None else centre
    if not within:
        return inside
    low, high = np.maximum(0.0, inside - within), inside + within
    high[high >= 1] = np.inf  # implied by the others, and a vertex would meet two bounds at once
    p = inside if start is None else start.clip(low, high)
    free, noise = (p > low) & (p < high), _noise(A, b)
    for _ in range(_GUESSES if free.any() else 0):
        q, s = _stationary(A, b, p, free)
        out = free & ((q < low) | (q > high))
        back = ~free & np.where(p <= low, s < -noise, s > noise)
        p = q.clip(low, high)
        if not (out | back).any():
            return p / p.sum()
        free = (free & ~out) | back
        if not free.any():
            break
    return _descend(A, b, low, high, inside)


def _noise(A: Matrix, b: Vector) -> float:
    """What Ap + b may be off by: the largest entry of a definite matrix is on its diagonal."""
    return _ROUNDING * float(A.diagonal().max() + np.abs(b).max())


def _stationary(A: Matrix, b: Vector, p: Vector, free: Mask) -> tuple[Vector, Vector]:
    """(``p`` with its free entries at the minimum over them, s); refined to rounding."""
    noise, count = _noise(A, b), free.sum()
    q, s = _level(A, b, p, free, count)
    for _ in range(4):
        if np.abs(s[free]).max() <= noise:
            break
        q, s = _level(A, b, q + _step(A, np.where(free, -s, 0.0), free, noise), free, count)
    return q, s


def _level(A: Matrix, b: Vector, p: Vector, free: Mask, count: int) -> tuple[Vector, Vector]:
    """(``p`` with its free entries shifted to a sum of one, s with their mean as nu)."""
    q = p + free * ((1 - p.sum()) / count)
    s = A @ q + b
    return q, s - s[free].mean()


def _step(A: Matrix, r: Vector, free: Mask, noise: float) -> Vector:
    """d with Ad + nu 1 = r on the free entries, of sum zero and zero elsewhere."""
    at = np.flatnonzero(free)
    d = _conjugate_gradients(A, r, free, noise) if len(at) > _DIRECT else None
    if d is not None:
        return d
    rhs = np.stack([r[at], np.ones(len(at))], 1)
    _, x, failed = lapack.dposv(A[np.ix_(at, at)], rhs, lower=1)
    if failed:
        raise np.linalg.LinAlgError("the matrix of the quadratic program is not definite")
    d = np.zeros_like(r)
    d[at] = x[:, 0] - x[:, 0].sum() / x[:, 1].sum() * x[:, 1]
    return d


def _conjugate_gradients(A: Matrix, r: Vector, free: Mask, noise: float) -> Vector | None:
    """The same for a large and well-conditioned A; None if it is not.

    AAggFF-S's matrix has one large eigenvalue, nearly along the ones, and a narrow band of others:
    among directions of sum zero a few products do what takes a factorisation fifty times as long.
    """
    x, d, size = np.zeros_like(r), r, r @ r
    for _ in range(50):
        Ad = A @ d
        Ad = np.where(free, Ad - Ad[free].mean(), 0.0)
        step = size / (d @ Ad)
        x, r = x + step * d, r - step * Ad
        size, before = r @ r, size
        if size <= (noise / 2) ** 2:
            return x
        d = r + size / before * d
    return None


def _descend(A: Matrix, b: Vector, low: Vector, high: Vector, p: Vector) -> Vector:
    """The primal active set method from a point inside: slower, and sure to end."""
    n, noise = len(b), _noise(A, b)
    free = np.ones(n, dtype=bool)
    for _ in range(50 * n + 50):
        if free.any():
            q, _ = _stationary(A, b, p, free)
            d = np.where(free, q - p, 0.0)
            wall = np.where(d < 0, low, high)
            room = np.divide(wall - p, d, out=np.full(n, np.inf), where=d != 0)
            i = int(room.argmin())
            if room[i] < 1:
                p = p + max(room[i], 0.0) * d
                p[i], free[i] = wall[i], False
                continue
            p = q
        g = A @ p + b
        i = int(np.where(p < high - _EDGE, g, np.inf).argmin())  # what gains most by growing
        j = int(np.where(p > low + _EDGE, g, -np.inf).argmax())  # and by shrinking
        if g[j] - g[i] <= 4 * noise:  # two entries, each off by noise, from a level off by it
            p = p.clip(low, high)
            return p / p.sum()
        if free.any():
            level = g[free].mean()
            free[i if level - g[i] >= g[j] - level else j] = True
        else:
            free[[i, j]] = True
    raise ArithmeticError(f"the quadratic program in {n} unknowns did not settle")
