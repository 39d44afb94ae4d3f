"""What is known about a mean: a mixture of Student's distributions around it.

Student's own case has one component; moderated variances (``moderated.py``) have one for each
value that their prior may have. With weights w, scales c and degrees of freedom v

p             sum_j w_j 2 T_{v_j}(-|m| / c_j)
interval      m ± h,  h such that p of a mean of h would be alpha
equivalence   the larger of two one-sided p, of m > -margin and of m < margin    (Schuirmann 1987)
detectable    the true mean found in `power` of all cases: noncentral t, with the degrees of freedom
              at which Student's h would be the mixture's
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import nctdtrinc, ndtri, stdtr, stdtridf, stdtrit

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.intp]

ALPHA = 0.05
POWER = 0.8
MOST = 1e6  # degrees of freedom that are as good as infinitely many
STEPS, PRECISION = 60, 1e-10  # of the search for the end of an interval


@dataclass(frozen=True)
class Known:
    """Means of any shape; the last axis of the other arrays holds the components of each."""

    mean: Array
    weight: Array
    scale: Array
    df: Array
    floor: Array  # another test's p, below which p never is; of means' shape

    def p(self) -> Array:
        """Two-sided p-values of a mean of zero; not a number where nothing is known."""
        return np.maximum(2 * self._tail(np.abs(self.mean)), self.floor)

    def half(self, alpha: Array | float = ALPHA) -> Array:
        """Half the width of the interval of level 1 - alpha."""
        alpha = np.broadcast_to(np.asarray(alpha, float), self.mean.shape)
        high = stdtrit(self.df.min(-1), 1 - alpha / 2) * self.scale.max(-1)
        if self.scale.shape[-1] == 1:
            return np.asarray(high)
        low = ndtri(1 - alpha / 2) * self.scale.min(-1)
        return self._crossing(low, high, np.log(alpha / 2))

    def _crossing(self, low: Array, high: Array, level: Array) -> Array:
        """Where the logarithm of the tail crosses a level, by false positions (Illinois)."""

        def above(x: Array) -> Array:
            with np.errstate(divide="ignore"):
                return np.where(self._certain(), 0.0, np.log(self._tail(x)) - level)

        left, right = above(low), above(high)
        for _ in range(STEPS):
            with np.errstate(divide="ignore", invalid="ignore"):
                x = high - right * (high - low) / (right - left)
            x = np.where((x >= low) & (x <= high), x, (low + high) / 2)
            f = above(x)
            if not (np.abs(f) > PRECISION).any():  # nan is where nothing is known
                break
            up = f > 0
            left, right = np.where(up, f, left / 2), np.where(up, right / 2, f)
            low, high = np.where(up, x, low), np.where(up, high, x)
        return np.asarray(x)

    def apart(self, margin: float) -> Array:
        """P-values of a true mean at least ``margin`` from zero; small ones say it is nearer."""
        m = np.abs(self.mean)
        exact = np.where(m < margin, 0.0, 1.0)
        with np.errstate(invalid="ignore"):
            near = self._tail(np.abs(margin - m))
        near = np.where(m < margin, near, 1 - near)
        return np.where(self._certain(), exact, near)

    def detectable(self, alpha: Array | float = ALPHA, power: float = POWER) -> Array:
        """The true mean that a test at level alpha finds in a share ``power`` of all cases."""
        alpha = np.broadcast_to(np.asarray(alpha, float), self.mean.shape)
        se = np.sqrt((self.weight * self.scale**2).sum(-1))
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = self.half(alpha) / se
            df = np.clip(np.nan_to_num(stdtridf(1 - alpha / 2, reach), nan=MOST), 1e-3, MOST)
            found: Array = nctdtrinc(df, 1 - power, reach) * se
        return found

    def _certain(self) -> Flags:
        return np.asarray(self.scale.max(-1) == 0)

    def _tail(self, x: Array) -> Array:
        """The chance of more than x beyond the mean, on one side."""
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = (self.weight * stdtr(self.df, -x[..., None] / self.scale)).sum(-1)
        return np.where(self._certain(), np.where(x > 0, 0.0, 0.5), tail)
