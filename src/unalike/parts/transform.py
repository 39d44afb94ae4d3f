"""What a client does to its own examples: augmentation that balances classes.

FedAug: raise every class below L to L copies by random variants of the client's own examples, with
L such that the client's label distribution is at distance e (L1) from uniform:
EMD'(L) = sum_i |max(n_i, L) / sum_j max(n_j, L) - 1/M| = e

Astraea: raise the classes that are rare among all clients, n_i <- n_i (mean / all of class i)^power
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from unalike import rng
from unalike.parts.augment import Variants
from unalike.rng import Key
from unalike.tree import Params

Solver = Literal["bisect", "closed_form"]


class Transform(Protocol):
    """A change to a client's own data: which examples to repeat, and how to alter the repeats."""

    def repeats(self, labels: np.ndarray, classes: int, key: Key) -> np.ndarray:
        """Positions of the client's examples to add variants of."""
        ...

    def apply(self, x: Tensor, altered: Tensor, key: Key) -> Tensor:
        """The features of a minibatch with the marked rows altered."""
        ...

    def note(self, counts: np.ndarray) -> str:
        """What to know of clients with these training examples by class; empty if nothing."""
        ...

    def effect(self, counts: np.ndarray) -> dict[str, Any]:
        """What becomes of their labels, for the record; empty if nothing."""
        ...


def distance(counts: np.ndarray) -> float:
    """L1 distance of a label histogram from uniform."""
    return float(np.abs(counts / counts.sum() - 1 / len(counts)).sum())


def level(
    counts: np.ndarray,
    target: float,
    solver: Solver = "bisect",
    owned: np.ndarray | None = None,
) -> float:
    """L, the count every class is raised to; 0 if the histogram is close enough already.

    ``bisect`` is exact for every histogram. ``closed_form`` is the published search; it is exact
    for two-level histograms only and can miss the target on graded ones. Classes that are not
    ``owned`` stay as they are; where that puts the target out of reach, bisection comes as close
    to it as it can with the fewest repeats.
    """
    counts = np.asarray(counts, dtype=float)
    owned = np.ones(len(counts), dtype=bool) if owned is None else owned

    def reached(L: float) -> float:
        return distance(np.where(owned, np.maximum(counts, L), counts))

    if distance(counts) <= target + 1e-12:
        return 0.0
    if solver == "closed_form":
        return _closed_form(counts, target)
    low, high = 0.0, float(counts.max())
    goal = max(target, reached(high) + 1e-12)
    for _ in range(60):
        middle = (low + high) / 2
        if reached(middle) > goal:
            low = middle
        else:
            high = middle
    return high


def _closed_form(counts: np.ndarray, e: float) -> float:
    n, M = np.sort(counts)[::-1], len(counts)
    L = 0.0
    for i in range(1, M):
        k, s = M - i, n[:i].sum()
        L = s * (2 * k - e * M) / (k * (2 * M - 2 * k + e * M))
        if n[i] <= L:
            break
    return float(L)


@dataclass(frozen=True)
class ClassBalance:
    """FedAug: repeat minority examples (host side, once), alter the repeats (per minibatch)."""

    target: float = 0.8
    solver: Solver = "bisect"
    images: bool = True
    variants: Variants = field(default_factory=Variants)

    def repeats(self, labels: np.ndarray, classes: int, key: Key) -> np.ndarray:
        """Positions (into ``labels``) of the examples to add variants of."""
        counts = np.bincount(labels, minlength=classes)
        missing = (self._filled(counts) - counts).astype(np.int64)
        if not missing.any():
            return np.zeros(0, dtype=np.int64)
        order = np.argsort(labels, kind="stable")
        start = np.concatenate([[0], np.cumsum(counts)])[:-1]
        extra = np.repeat(np.arange(classes), missing)
        turn = np.arange(len(extra)) - np.repeat(np.cumsum(missing) - missing, missing)
        # Every example is used once before any is used twice; the key decides where to begin.
        shift = int(rng.bits(key, 1)[0]) % max(1, len(labels))
        return order[start[extra] + (turn + shift) % counts[extra]]

    def note(self, counts: np.ndarray) -> str:
        """Whom this cannot help: a class without an example has no variants.

        A client that lacks m of M classes comes as close as 2m/M, when it has equally many of the
        others; one that is as close already is left as it is.
        """
        classes = counts.shape[1]
        apart = np.abs(counts / counts.sum(axis=1, keepdims=True) - 1 / classes).sum(axis=1)
        skewed = apart > self.target + 1e-12
        if not skewed.any():
            return (
                "fedaug changes nothing: the EMD of every client is already at most "
                f"{self.target:g}; lower its target"
            )
        lacks = (counts == 0).sum(axis=1)
        closest = 2 * lacks / classes
        stuck = skewed & (closest > self.target + 1e-12)
        if not stuck.any():
            return ""
        changed = skewed & (apart > closest + 1e-9)
        effect = "" if changed.any() else "changes nothing and "
        return (
            f"fedaug {effect}leaves {stuck.sum()} of {len(counts)} clients above its target EMD "
            f"of {self.target:g}: they lack {lacks[stuck].sum()} classes, and there is no "
            "example to vary; give every client one of each class, for example with "
            "partition.keep_one = true"
        )

    def effect(self, counts: np.ndarray) -> dict[str, Any]:
        """The share of training rows that are not altered, and EMDs from uniform before and after.

        Unaltered are N / sum_i max(n_i, L) of a client's rows; means over clients count them
        equally.
        """
        counts = np.asarray(counts, dtype=float)
        filled = np.array([self._filled(own) for own in counts])
        share = counts.sum(1) / filled.sum(1)
        before, after = (np.array([distance(own) for own in c]) for c in (counts, filled))
        return {
            "unaltered": round(float(share.mean()), 6),
            "emd_before": round(float(before.mean()), 6),
            "emd_after": round(float(after.mean()), 6),
            "each": [round(float(v), 6) for v in after],
        }

    def _filled(self, counts: np.ndarray) -> np.ndarray:
        """A client's examples by class once its rare classes are filled up."""
        owned = counts > 0  # a class of which the client has no example cannot be augmented
        L = np.rint(level(counts, self.target, self.solver, owned))
        return np.where(owned, np.maximum(counts, L), counts)

    def apply(self, x: Tensor, altered: Tensor, key: Key) -> Tensor:
        """Random variants of the marked rows; tables get noise, whole numbers stay."""
        if self.images:
            new = self.variants(x, key)
        elif x.is_floating_point():
            new = x + self.variants.noise * rng.normal(rng.fold_in(key, 1), *x.shape)
        else:
            return x
        return torch.where(altered.reshape(-1, *[1] * (x.ndim - 1)), new, x)


def raised(own: np.ndarray, everybody: np.ndarray, power: float) -> np.ndarray:
    """A client's examples by class once all that are rarer than the mean are augmented.

    Each example counts (mean / number of its class among ``everybody``)^power times: 0 adds none, 1
    makes the classes of all clients together equally large. Of a class there are at least its own
    examples: others that have it may have been absent, or lied, when all were counted.
    """
    mean = max(float(everybody.mean()), 1e-12)
    rare = np.where(own > 0, np.maximum(everybody, own) / mean, 1.0).clip(max=1.0)
    return np.rint(own * rare**-power)


@dataclass(frozen=True)
class GlobalBalance(ClassBalance):
    """Astraea: augment the classes that are rare among all clients, wherever they are."""

    power: float = 1.0
    counts: tuple[float, ...] = ()  # of all classes, which the stage before found out

    @property
    def handed(self) -> Tensor:
        """What every client is told."""
        return torch.tensor(self.counts)

    def inherit(self, model: Params) -> Self:
        """With those counts."""
        return replace(self, counts=tuple(model["counts"].tolist()))

    def note(self, counts: np.ndarray) -> str:
        """Nothing: a client with examples of a rare class can vary them."""
        return ""

    def effect(self, counts: np.ndarray) -> dict[str, Any]:
        """As of the other, with the counts that these clients have."""
        told = tuple(counts.sum(0).tolist())
        return super(GlobalBalance, replace(self, counts=told)).effect(counts)

    def _filled(self, counts: np.ndarray) -> np.ndarray:
        return raised(counts, np.array(self.counts or [1.0] * len(counts)), self.power)
