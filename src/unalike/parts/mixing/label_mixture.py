"""FedEP's question: the Gaussian mixture of a client's labels, seen as numbers.

EM on the label histogram: a label with count c weighs like c examples, so one pass costs
classes x parts instead of examples x parts. The number of parts minimises
BIC(M) = -2 ln L + q ln n, q = 3M - 1 (textbook) or M (thesis), M = 1 .. ceil(rho |labels|).
The fit of the printed ``listing`` is in ``listed_mixture.py``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from unalike import rng
from unalike.parts.mixing import listed_mixture
from unalike.parts.mixing.questions import Own, Plain, blurred, noise_note
from unalike.rng import Key

Bic = Literal["auto", "3m-1", "m"]

_TRIAL, _FINALISTS = 30, 4  # after so many EM steps, so many of the starts continue
FLOOR = 0.01  # the least variance: a client with a single label has none of its own


@dataclass(frozen=True)
class LabelMixture(Plain):
    """Rows (pi, mu, variance), padded with pi = 0 to the same shape for every client."""

    rho: float = 0.5
    listing: bool = False
    epsilon: float = 0.0
    bic: Bic = "auto"
    variance_floor: float = FLOOR
    restarts: int = 32
    name: ClassVar[str] = "label_mixture"

    @property
    def reveals(self) -> str:
        """Less than a histogram, but not nothing."""
        seen = "a smoothed picture of the label distribution (3 numbers per part)"
        return seen + noise_note(self.epsilon)

    def answer(self, own: Own, key: Key) -> np.ndarray:
        """[ceil(rho classes), 3]; without noise the key matters to the ``listing`` alone."""
        labels = blurred(own, self.epsilon, key)
        thesis = self.bic == "m" or (self.bic == "auto" and self.listing)
        if self.listing:
            most = most_parts(self.rho, len(np.unique(labels)))
            lot = np.random.default_rng(int(rng.fold_in(key, 0)) % 2**64)
            theta = listed_mixture.select(labels, most, lot, 1 if thesis else 3)
        else:
            theta = select(labels, self.rho, self.restarts, 1 if thesis else 3, self.variance_floor)
        out = np.zeros((most_parts(self.rho, own.classes), 3), dtype=np.float32)
        out[:, 2] = 1.0
        out[: len(theta)] = theta
        return out


def most_parts(rho: float, labels: int) -> int:
    """ceil(rho |labels|); the guard keeps 0.7 x 10 from becoming 8."""
    return max(1, math.ceil(rho * labels - 1e-9))


def select(
    labels: np.ndarray,
    rho: float = 0.5,
    restarts: int = 32,
    q: int = 3,
    floor: float = FLOOR,
) -> np.ndarray:
    """The mixture with the least BIC, rows (pi, mu, variance) ordered by mean.

    ``q`` parameters are counted for each part; a number added for all M alike would not matter.
    """
    y, count = np.unique(labels, return_counts=True)
    n = count.sum()
    best, least = np.empty((0, 3)), np.inf
    for parts in range(1, most_parts(rho, len(y)) + 1):
        theta, log_likelihood = fit(
            y.astype(float), count.astype(float), parts, restarts, floor=floor
        )
        bic = -2 * log_likelihood + (q * parts - 1) * math.log(n)
        if bic < least:
            best, least = theta, bic
    return best[np.argsort(best[:, 1])]


def fit(
    y: np.ndarray,
    count: np.ndarray,
    parts: int,
    restarts: int = 32,
    iterations: int = 300,
    floor: float = FLOOR,
) -> tuple[np.ndarray, float]:
    """The best of several EM runs at once: (rows (pi, mu, variance), log-likelihood).

    A variance is at least the floor.
    """
    n = count.sum()
    pi, mu, s2 = _starts(y, count / n, parts, restarts, floor).transpose(2, 0, 1)
    before = -np.inf
    for turn in range(iterations):
        log = (
            np.log(np.maximum(pi, 1e-300))[:, None]
            - (y[:, None] - mu[:, None]) ** 2 / (2 * s2[:, None])
            - 0.5 * np.log(2 * np.pi * s2[:, None])
        )  # [restarts, labels, parts]
        top = log.max(2, keepdims=True)
        total = top + np.log(np.exp(log - top).sum(2, keepdims=True))
        likelihood = (count * total[..., 0]).sum(1)
        if np.all(likelihood - before < 1e-9 * n):
            break
        before, gamma = likelihood, np.exp(log - total) * count[:, None]
        if turn == _TRIAL:  # only promising starts are continued to the end
            kept = np.argsort(-likelihood)[:_FINALISTS]
            before, gamma = before[kept], gamma[kept]
        mass = np.maximum(gamma.sum(1), 1e-12)
        pi, mu = mass / n, (gamma * y[:, None]).sum(1) / mass
        s2 = (gamma * (y[:, None] - mu[:, None]) ** 2).sum(1) / mass
        s2 = np.maximum(s2, floor)
    i = int(np.argmax(likelihood))
    return np.stack([pi[i], mu[i], s2[i]], 1), float(likelihood[i])


def _starts(y: np.ndarray, p: np.ndarray, parts: int, restarts: int, floor: float) -> np.ndarray:
    """Rows (pi, mu, variance) to start from, [restarts, parts, 3].

    Labels are whole numbers, so a good mixture often has narrow parts on single labels and a broad
    one for the rest. EM needs thousands of steps to get there from broad parts, hence the starts
    that have it. The generator is fixed, since the fit must not depend on when it is computed.
    """
    draw = np.random.default_rng(parts)

    def moments(some: np.ndarray) -> tuple[float, float, float]:
        mass = max(float(p[some].sum()), 1e-3)
        mean = float(p[some] @ y[some]) / mass
        return mass, mean, max(float(p[some] @ (y[some] - mean) ** 2) / mass, floor)

    def alike(mu: np.ndarray, variance: float) -> np.ndarray:
        return np.stack(np.broadcast_arrays(1 / parts, mu, max(variance, floor)), 1)

    def singled_out(some: np.ndarray) -> np.ndarray:
        rest = np.setdiff1d(np.arange(len(y)), some)
        own = np.stack(np.broadcast_arrays(p[some], y[some], floor), 1)
        return np.vstack([own, moments(rest)])

    _, mean, variance = moments(np.arange(len(y)))
    middles = (np.arange(parts) + 0.5) / parts
    quantiles = np.interp(middles, np.cumsum(p) - p / 2, y)
    even = y[0] + middles * (y[-1] - y[0])
    starts = [alike(quantiles, variance), alike(quantiles, variance / parts**2)]
    starts += [alike(even, variance / parts**2)]
    starts += [singled_out(np.argsort(-p, kind="stable")[: parts - 1])]
    starts += [singled_out(np.argsort(-np.abs(y - mean), kind="stable")[: parts - 1])]
    for i in range(len(starts), restarts):
        some = draw.choice(len(y), parts, replace=parts > len(y))
        starts += [singled_out(some[1:]) if i % 2 else alike(y[some], variance / parts**2)]
    return np.array(starts)
