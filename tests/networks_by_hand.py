"""Methods on a network of a few weights as plain arithmetic, with none of the library.

A model is one vector: body A x + a, perhaps normalised over the minibatch and scaled, tanh, head
B z + b. A gradient is the difference of a loss on either side, so that nothing is derived twice.
Client k's features are drawn, its labels are those that ``by_hand`` counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from by_hand import COUNTS, EVERYBODY, SIZES, FedAvg, Vector, walk

WIDTH, CLASSES = 2, 3
LABELS = [np.repeat(np.arange(CLASSES), row.astype(int)) for row in COUNTS]
_draw = np.random.default_rng(4)
FEATURES = [_draw.normal(size=(int(n), 2)) for n in SIZES]
_LEAVES = {"A": (WIDTH, 2), "a": (WIDTH,), "scale": (WIDTH,), "shift": (WIDTH,)}
_LEAVES |= {"B": (CLASSES, WIDTH), "b": (CLASSES,)}
PLACES: dict[str, slice] = {}
for _name, _shape in _LEAVES.items():
    _first = max((s.stop for s in PLACES.values()), default=0)
    PLACES[_name] = slice(_first, _first + int(np.prod(_shape)))
NORM = tuple(range(PLACES["scale"].start, PLACES["shift"].stop))
ALL = tuple(range(PLACES["b"].stop))
START = _draw.normal(size=len(ALL)) * 0.7


def leaf(w: Vector, name: str) -> Vector:
    """One of the arrays in a model."""
    return w[PLACES[name]].reshape(_LEAVES[name])


def representation(w: Vector, x: Vector, normed: bool) -> Vector:
    """What goes into the head."""
    z = x @ leaf(w, "A").T + leaf(w, "a")
    if normed:
        z = (z - z.mean(0)) / np.sqrt(z.var(0) + 1e-5) * leaf(w, "scale") + leaf(w, "shift")
    return np.tanh(z)


def entropy(w: Vector, x: Vector, y: Vector, normed: bool = False) -> float:
    """The mean cross-entropy."""
    logits = representation(w, x, normed) @ leaf(w, "B").T + leaf(w, "b")
    logits = logits - logits.max(1, keepdims=True)
    each = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]
    return float(each.mean())


def slope(value: Callable[[Vector], float], w: Vector, h: float = 1e-5) -> Vector:
    """The gradient by differences, right to the fourth order of h."""
    out = np.empty_like(w)
    for i in range(len(w)):
        at = [value(w + s * h * (np.arange(len(w)) == i)) for s in (-2, -1, 1, 2)]
        out[i] = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
    return out


def loss(w: Vector, k: int, normed: bool = False) -> float:
    """Of all examples of client k."""
    return entropy(w, FEATURES[k], LABELS[k], normed)


@dataclass
class Plain(FedAvg):
    """FedAvg on the network, or FedBN if some of it is private."""

    shared: tuple[int, ...] = ALL
    normed: bool = False

    def first(self, k: int) -> Any:
        """The initial model."""
        return START.copy()

    def objective(self, w: Vector, k: int, received: Vector, mine: Any) -> float:
        """On all examples at once."""
        near = 0.5 * self.pull * float((w - received) @ (w - received))
        return loss(w, k, self.normed) + near

    def round(self, k: int, x: Vector, mine: Any, start: Vector) -> tuple[Vector, Any]:
        """Steps on the objective."""
        received = self.whole(x, mine)

        def value(w: Vector) -> float:
            return self.objective(w, k, received, mine)

        end = walk(self.whole(start, mine), lambda w: slope(value, w))
        return end, end


def cosines(a: Vector, b: Vector) -> Vector:
    """Row by row."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(1) / lengths)


@dataclass
class Moon(Plain):
    """Near the received representation, far from that of its own last model."""

    mu: float = 2.0
    temperature: float = 0.5

    def objective(self, w: Vector, k: int, received: Vector, mine: Any) -> float:
        """Equation 3 as it stands."""
        z, g, p = (representation(m, FEATURES[k], False) for m in (w, received, mine))
        near, far = (np.exp(cosines(z, o) / self.temperature) for o in (g, p))
        contrast = -np.log(near / (near + far)).mean()
        return super().objective(w, k, received, mine) + self.mu * float(contrast)

    def whole(self, x: Vector, mine: Any) -> Vector:
        """Everything is shared."""
        return x.copy()


def fedproto(
    n: int, rule: Callable[[Vector, Vector], Vector], strength: float
) -> tuple[Vector, list[Vector]]:
    """(the prototypes, everybody's model) after n rounds; classes nobody has stay as they are."""
    models, means = [START.copy() for _ in EVERYBODY], np.zeros((CLASSES, WIDTH))
    known = np.zeros(CLASSES, dtype=bool)
    for _ in range(n):
        losses = np.array([loss(models[k], k) for k in EVERYBODY])
        p = rule(EVERYBODY, losses)
        total, mass = np.zeros_like(means), np.zeros(CLASSES)
        for k in EVERYBODY:

            def value(w: Vector, k: int = k, to: Vector = means, on: Vector = known) -> float:
                z, y = representation(w, FEATURES[k], False), LABELS[k]
                apart = ((z - to[y]) ** 2).mean(1) * on[y]
                return loss(w, k) + strength * float(apart.mean())

            models[k] = walk(models[k], lambda w, v=value: slope(v, w))
            z = representation(models[k], FEATURES[k], False)
            for j in range(CLASSES):
                mine = LABELS[k] == j
                total[j] += p[k] * z[mine].sum(0) / len(mine)
                mass[j] += p[k] * mine.mean()
        has = mass > 0
        means = np.where(has[:, None], total / np.where(has, mass, 1)[:, None], means)
        known = known | has
    return means, models
