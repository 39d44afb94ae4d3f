"""Methods as plain arithmetic on two numbers: what their equations say, with none of the library.

The model is w = (f, g) and client k has one point (x, y), as often as it has examples; its loss is
1/2 (g f x - y)^2. A client's half says where its local training ends and what it keeps, a rule
weighs the clients, a server steps. Any of them goes with any other, which is all that a combination
of methods means.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from math import erf
from typing import Any

import numpy as np

Vector = np.ndarray
POINTS = np.array([(1.0, 2.0), (0.5, -1.0), (1.5, 1.0), (-1.0, 0.7)])
SIZES = np.array([2.0, 3.0, 4.0, 6.0])
COUNTS = np.array([[2, 0, 0], [1, 1, 1], [0, 1, 3], [1, 5, 0]], dtype=float)  # labels by client
START = np.array([0.9, 0.4])
OWN = np.array([0.3, -0.2])  # where SuPerFed's local ends begin
ETA, STEPS = 0.1, 3
EVERYBODY = np.arange(len(POINTS))


def loss(w: Vector, k: int) -> float:
    """Of client k."""
    x, y = POINTS[k]
    return float(0.5 * (w[0] * w[1] * x - y) ** 2)


def slope(w: Vector, k: int) -> Vector:
    """Its gradient."""
    x, y = POINTS[k]
    return (w[0] * w[1] * x - y) * x * w[::-1]


def walk(w: Vector, towards: Callable[[Vector], Vector], steps: int | None = None) -> Vector:
    """Steps of plain gradient descent."""
    for _ in range(STEPS if steps is None else steps):
        w = w - ETA * towards(w)
    return w


# ------------------------------------------------------------------------------- client halves


@dataclass
class FedAvg:
    """And FedProx, if there is a pull."""

    pull: float = 0.0
    shared: tuple[int, ...] = (0, 1)  # which of the two numbers travel

    def first(self, k: int) -> Any:
        """What a client keeps before it ever took part."""
        return START.copy()

    def whole(self, x: Vector, mine: Any) -> Vector:
        """The received model: the shared numbers, and the client's own ones."""
        out = mine.copy()
        out[list(self.shared)] = x[list(self.shared)]
        return out

    def round(self, k: int, x: Vector, mine: Any, start: Vector) -> tuple[Vector, Any]:
        """(the model in the end, what is kept)."""
        received = self.whole(x, mine)
        end = walk(self.whole(start, mine), lambda w: slope(w, k) + self.pull * (w - received))
        return end, end

    def judged(self, x: Vector, mine: Any) -> Vector:
        """The model that a client is judged by."""
        return self.whole(x, mine)

    def received(self, x: Vector, mine: Any) -> Vector:
        """The model whose loss it reports."""
        return self.whole(x, mine)


class FedRep(FedAvg):
    """The private number first, then the shared one."""

    def round(self, k: int, x: Vector, mine: Any, start: Vector) -> tuple[Vector, Any]:
        """Each with the other fixed."""
        received, end = self.whole(x, mine), self.whole(start, mine)
        mask = np.isin([0, 1], self.shared)
        for some in (~mask, mask):
            end = walk(end, lambda w, s=some: s * (slope(w, k) + self.pull * (w - received)))
        return end, end


@dataclass
class Apfl(FedAvg):
    """u = alpha v + (1 - alpha) w."""

    alpha: float = 0.25

    def round(self, k: int, x: Vector, mine: Any, start: Vector) -> tuple[Vector, Any]:
        """Both on each minibatch, from where they were."""
        w, v = start, mine
        for _ in range(STEPS):
            u = self.alpha * v + (1 - self.alpha) * w
            down = slope(w, k) + self.pull * (w - x)
            w, v = w - ETA * down, v - ETA * self.alpha * slope(u, k)
        return w, v

    def judged(self, x: Vector, mine: Any) -> Vector:
        """The mixture."""
        return self.alpha * mine + (1 - self.alpha) * x


@dataclass
class PFedMe(FedAvg):
    """Personal models theta around the centre w."""

    strength: float = 2.0
    inner: int = 2
    lr: float = 0.2

    def round(self, k: int, x: Vector, mine: Any, start: Vector) -> tuple[Vector, Any]:
        """theta goes on from minibatch to minibatch."""
        theta = w = start
        for _ in range(STEPS):
            pulled = w
            theta = walk(
                theta, lambda q, c=pulled: slope(q, k) + self.strength * (q - c), self.inner
            )
            w = w - self.lr * self.strength * (w - theta)
        return w, theta

    def judged(self, x: Vector, mine: Any) -> Vector:
        """The last personal model."""
        return np.asarray(mine)


@dataclass
class PerFedAvg(FedAvg):
    """One step ahead of rate ``ahead``; with a difference of gradients for the Hessian, or not."""

    ahead: float = 0.2
    delta: float | None = None

    def round(self, k: int, x: Vector, mine: Any, start: Vector) -> tuple[Vector, Any]:
        """All gradients of a step on one minibatch."""

        def meta(w: Vector) -> Vector:
            g = slope(w - self.ahead * slope(w, k), k)
            if self.delta is None:
                return g
            apart = slope(w + self.delta * g, k) - slope(w - self.delta * g, k)
            return g - self.ahead * apart / (2 * self.delta)

        return walk(start, meta), mine


@dataclass
class SuPerFed(FedAvg):
    """Two ends with lambda = ``mix`` of each of the two numbers."""

    mix: tuple[float, float] = (0.3, 0.3)
    mu: float = 0.01
    nu: float = 1.0

    def first(self, k: int) -> Any:
        """A model of its own."""
        return OWN.copy()

    def round(self, k: int, x: Vector, mine: Any, start: Vector) -> tuple[Vector, Any]:
        """Equation 3, by its gradients."""
        f, l, lam = start, mine, np.array(self.mix)
        for _ in range(STEPS):
            g = slope((1 - lam) * f + lam * l, k)
            a, b = np.linalg.norm(f), np.linalg.norm(l)
            cos = f @ l / (a * b)
            by_f = (1 - lam) * g + self.mu * (f - x)
            by_f = by_f + 2 * self.nu * cos * (l / (a * b) - cos * f / a**2)
            by_l = lam * g + 2 * self.nu * cos * (f / (a * b) - cos * l / b**2)
            f, l = f - ETA * by_f, l - ETA * by_l
        return f, l

    def judged(self, x: Vector, mine: Any) -> Vector:
        """Half way."""
        return (x + mine) / 2

    def received(self, x: Vector, mine: Any) -> Vector:
        """The shared model."""
        return x


@dataclass
class Ditto:
    """A second model near the one that the method inside receives."""

    inside: FedAvg
    strength: float = 1.0

    @property
    def shared(self) -> tuple[int, ...]:
        """As inside."""
        return self.inside.shared

    def first(self, k: int) -> Any:
        """The initial model."""
        return START.copy(), self.inside.first(k)

    def round(self, k: int, x: Vector, mine: Any, start: Vector) -> tuple[Vector, Any]:
        """The method inside does not hear of the second model."""
        v, inner = mine
        received = self.inside.received(x, inner)
        end, inner = self.inside.round(k, x, inner, start)
        v = walk(v, lambda q: slope(q, k) + self.strength * (q - received))
        return end, (v, inner)

    def judged(self, x: Vector, mine: Any) -> Vector:
        """The second model."""
        return np.asarray(mine[0])

    def received(self, x: Vector, mine: Any) -> Vector:
        """As inside."""
        return self.inside.received(x, mine[1])


# ---------------------------------------------------------------------------- rules for weights


def by_size(who: Vector, losses: Vector) -> Vector:
    """FedAvg's."""
    return SIZES[who] / SIZES[who].sum()


def uniform(who: Vector, losses: Vector) -> Vector:
    """Everybody counts the same."""
    return np.full(len(who), 1 / len(who))


def disco(who: Vector, losses: Vector, a: float = 0.5, b: float = 0.1) -> Vector:
    """FedDisco with the divergence from uniform labels, over its sum."""
    q = COUNTS[who] / COUNTS[who].sum(1, keepdims=True)
    d = np.array([sum(p * np.log(3 * p) for p in row if p) for row in q])
    d = d / d.sum() if d.sum() else d
    u = np.maximum(0, by_size(who, losses) - a * d + b)
    return u / u.sum()


def entropy_pool(
    who: Vector, losses: Vector, known: Vector = EVERYBODY, floor: float = 0.01
) -> Vector:
    """FedEP with one Gaussian for each client: far from the known ones' pool counts more."""
    labels = np.arange(3.0)
    mean = COUNTS @ labels / SIZES
    spread = np.maximum(COUNTS @ labels**2 / SIZES - mean**2, 0.01)
    P = np.exp(-((labels - mean[:, None]) ** 2) / (2 * spread[:, None])) / np.sqrt(spread)[:, None]
    P = P / P.sum(1, keepdims=True)
    P = (P + floor) / (1 + 3 * floor)
    whole = by_size(known, losses) @ P[known]
    kl = (whole * np.log(whole / P)).sum(1)
    return kl[who] / kl[who].sum()


@dataclass
class OnlineNewton:
    """AAggFF-S with the normal CDF."""

    g: list[Vector] = field(default_factory=list)
    p: list[Vector] = field(default_factory=lambda: [np.full(4, 0.25)])

    def __call__(self, who: Vector, losses: Vector) -> Vector:
        """The decision after these losses."""
        K, x = len(losses), losses / losses.mean()
        r = np.array([0.5 * (1 + erf((v - 1) / 2**0.5)) for v in x]) / K
        self.g.append(-r / (1 + self.p[-1] @ r))
        self.p.append(self._best(4.0, K / 4))
        return self.p[-1][who]

    def _best(self, alpha: float, beta: float) -> Vector:
        """The least of the objective over the simplex, from the minima on all of its faces."""
        K = len(self.p[0])
        A = alpha * np.eye(K) + beta * sum(np.outer(g, g) for g in self.g)
        b = sum(g - beta * (g @ p) * g for g, p in zip(self.g, self.p, strict=True))
        best, least = None, np.inf
        for n in range(1, K + 1):
            for face in combinations(range(K), n):
                on = list(face)
                system = np.block([[A[np.ix_(on, on)], np.ones((n, 1))], [np.ones(n), 0.0]])
                p = np.zeros(K)
                p[on] = np.linalg.solve(system, np.append(-np.asarray(b)[on], 1.0))[:n]
                value = p @ A @ p / 2 + b @ p
                if p.min() >= 0 and value < least:
                    best, least = p, value
        assert best is not None
        return best


# ------------------------------------------------------------------------------ servers' steps


def plain(x: Vector, deltas: Vector, p: Vector) -> Vector:
    """The weighted mean."""
    return x + p @ deltas


def median(x: Vector, deltas: Vector, p: Vector) -> Vector:
    """Of every coordinate."""
    return x + np.median(deltas, axis=0)


def clipped(x: Vector, deltas: Vector, p: Vector, longest: float = 0.05) -> Vector:
    """The mean of updates of at most that length."""
    lengths = np.linalg.norm(deltas, axis=1, keepdims=True)
    return x + (deltas * np.minimum(1, longest / np.maximum(lengths, 1e-30))).mean(0)


@dataclass
class Adam:
    """FedAdam's moments, which stay from round to round."""

    lr: float = 0.05
    tau: float = 1e-2
    m: Any = 0.0
    v: Any = None

    def __call__(self, x: Vector, deltas: Vector, p: Vector) -> Vector:
        """No correction of a bias."""
        d = p @ deltas
        self.m = 0.9 * self.m + 0.1 * d
        self.v = 0.99 * (self.tau**2 if self.v is None else self.v) + 0.01 * d**2
        return x + self.lr * self.m / (np.sqrt(self.v) + self.tau)
