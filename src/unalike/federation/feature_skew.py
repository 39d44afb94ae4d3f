"""How much clients' features differ, apart from their labels.

A client's training rows x_1..x_m are paired with rows z_1..z_m of the other clients, each with the
label of its partner, so that label skew has no part in it. With k(a, b) = exp(-|a - b|^2 / 2 s^2),
s the median distance of two rows (of all clients), and

h_ij = k(x_i, x_j) + k(z_i, z_j) - k(x_i, z_j) - k(z_i, x_j)
MMD^2 = sum over i != j of h_ij / (m (m - 1))          unbiased; Gretton et al. 2012, eq. 4

The reported MMD is the root, 0 where chance makes MMD^2 negative; at most sqrt(2). If the client's
rows are like the others', a pair may be swapped, which turns the signs of a row and a column of h:
p = (1 + swaps at least as large) / (1 + swaps), over random swaps, is exact for independent rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unalike.federation.build import stream
from unalike.federation.data import TRAIN, Federation

Floats = NDArray[np.float64]

ROWS = 100  # pairs of a client
FEWEST = 8  # with fewer, hardly any swap is possible
CLIENTS = 100  # that are measured; of more, as many drawn at random
OTHERS = 50_000  # rows that partners are drawn from, beside those of the measured clients
WIDTH = 500  # rows whose distances set the width of the kernel
SWAPS = 999  # and more for many clients, so that a correction leaves small p-values
ALPHA = 0.05
FEATURES = 3  # the purpose of the random numbers, after those of ``federation.build``


@dataclass(frozen=True)
class FeatureSkew:
    """The features of each client against those of the others, at equal labels."""

    mmd: Floats  # [clients] NaN where a client has too few rows, or was not measured
    p: Floats  # [clients] of one client alone
    sizes: np.ndarray

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Which clients were."""
        return ~np.isnan(self.mmd)

    @property
    def mean(self) -> float:
        """The mean MMD of the measured clients, by their examples."""
        known = self.measured
        if not known.any():
            return np.nan
        return float(np.average(self.mmd[known], weights=self.sizes[known]))

    @property
    def apart(self) -> int:
        """How many clients differ beyond chance: p-values below 5 % after Holm's correction."""
        p = np.sort(self.p[self.measured])
        passed = p * np.arange(len(p), 0, -1) < ALPHA
        return int(np.cumprod(passed).sum())

    def as_dict(self) -> dict[str, float | None]:
        """The summary as a record of a partition's skew stores it."""
        if not self.measured.any():
            return {"mmd": None, "apart": None}
        return {"mmd": self.mean, "apart": float(self.apart)}

    def per_client(self) -> dict[str, list[float | None]]:
        """Each client's numbers; None where there is none."""
        unknown = ~self.measured
        found = {"mmd": self.mmd.astype(object), "p": self.p.astype(object)}
        for values in found.values():
            values[unknown] = None
        return {k: v.tolist() for k, v in found.items()}


def measure_features(federation: Federation, seed: int = 0) -> FeatureSkew:
    """The feature skew of a federation's training rows, as the models see them.

    Tokens (text) have no distance, so they are not measured.
    """
    rng, n = stream(seed, FEATURES), federation.n_clients
    found = FeatureSkew(np.full(n, np.nan), np.full(n, np.nan), federation.sizes(TRAIN)[:n])
    e = federation.examples
    rows = np.flatnonzero((federation.part == TRAIN) & (federation.owner < n))
    if not e.x.is_floating_point() or n < 2:
        return found
    chosen = rng.permutation(n)[:CLIENTS] if n > CLIENTS else np.arange(n)
    # One order for all clients: the first rows of a class are a random draw of them.
    rows = rng.permutation(rows)
    if len(rows) > OTHERS:
        rows = rows[np.isin(federation.owner[rows], chosen) | (np.arange(len(rows)) < OTHERS)]
    rows = rows[np.argsort(e.strata[rows], kind="stable")]
    owner, classes = federation.owner[rows], e.strata[rows]
    width = _width(_features(federation, rng.choice(rows, min(WIDTH, len(rows)), replace=False)))
    swaps = SWAPS + int(2 * len(chosen) / ALPHA)
    for k in chosen:
        mine, others = _pairs(classes, owner == k, rng)
        if len(mine) >= FEWEST:
            x, z = (_features(federation, rows[at]) for at in (mine, others))
            found.mmd[k], found.p[k] = mmd(x, z, width, rng, swaps)
    return found


def mmd(x: Any, z: Any, width: float, rng: np.random.Generator, swaps: int) -> tuple[float, float]:
    """(MMD, p-value) of pairs of rows."""
    h = paired_kernel(x, z, width)
    m = len(h)
    signs = 1.0 - 2.0 * rng.integers(0, 2, size=(swaps, m))
    under = ((signs @ h) * signs).sum(1)
    observed = h.sum()
    # Equal sums may differ by rounding, which depends on the order of the terms.
    p = (1 + np.count_nonzero(under >= observed - 1e-9 * np.abs(h).sum())) / (1 + swaps)
    return float(np.sqrt(max(observed / (m * (m - 1)), 0.0))), float(p)


def paired_kernel(x: Any, z: Any, width: float) -> Floats:
    """h of all pairs of pairs, with a diagonal of zeros."""
    x, z = (torch.as_tensor(v, dtype=torch.float64) for v in (x, z))

    def k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.exp(-(torch.cdist(a, b) ** 2) / (2 * width**2))

    cross = k(x, z)
    h: Floats = (k(x, x) + k(z, z) - cross - cross.T).numpy()
    np.fill_diagonal(h, 0.0)
    return h


def _pairs(
    classes: np.ndarray, own: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Places of a client's rows and of as many of the others', with the same labels one by one."""
    mine, others = np.flatnonzero(own), np.flatnonzero(~own)
    count = min_counts(classes[mine], classes[others])
    mine, others = (at[_rank(classes[at]) < count[classes[at]]] for at in (mine, others))
    some = rng.permutation(len(mine))[:ROWS]
    return mine[some], others[some]


def min_counts(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How many rows of each class both have.

    >>> min_counts(np.array([0, 0, 2]), np.array([0, 1, 2, 2])).tolist()
    [1, 0, 1]
    """
    classes = int(max(one.max(initial=-1), other.max(initial=-1))) + 1
    counts: np.ndarray = np.minimum(*(np.bincount(v, minlength=classes) for v in (one, other)))
    return counts


def _rank(ordered: np.ndarray) -> np.ndarray:
    """The place of each entry among the equal ones of a sorted vector."""
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return np.arange(len(ordered)) - np.repeat(starts, np.diff(starts, append=len(ordered)))


def _features(federation: Federation, rows: np.ndarray) -> torch.Tensor:
    """Rows as vectors, without attributes that no network sees."""
    e = federation.examples
    x = e.x[torch.from_numpy(rows)].flatten(1)
    return x[:, : x.shape[1] - len(e.protected)]


def _width(x: torch.Tensor) -> float:
    """The median distance of two different rows; 1 if half of them are the same."""
    found = float(torch.pdist(x.double()).median()) if len(x) > 1 else 0.0
    return found if found > 0 else 1.0
