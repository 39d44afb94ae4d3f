"""How far servers are from one another, and how fast a graph brings them together.

distance      sqrt(1/K sum_j ||x_j - m||^2),  m the plain mean of all models
spectral gap  1 - |second largest eigenvalue of A|,  x_j <- sum_i a_ji x_i

Without training, and with symmetric weights, a round leaves at most 1 - gap of the distance.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from unalike import tree
from unalike.tree import Tree

LARGEST = 2000  # servers; the eigenvalues of more would take longer than the round
LOPSIDED = 500  # the same for a matrix that is not symmetric


def distance(x: Tree) -> float:
    """The root mean square distance of stacked models from their mean."""

    def squares(v: Tensor) -> float:
        flat = v.reshape(len(v), -1)
        mean = flat.mean(0, dtype=torch.float64)
        rows = flat.split(max(1, (1 << 20) // flat.shape[1]))
        return sum(float((part - mean).square().sum()) for part in rows)

    leaves = [v for v in tree.leaves(x) if v.is_floating_point() and v.numel()]
    return float((sum(map(squares, leaves)) / len(leaves[0])) ** 0.5) if leaves else 0.0


def matrix(mixed: Mapping[int, Mapping[int, float]], k: int) -> np.ndarray:
    """[k, k] how servers combined their neighbours; one that heard nobody is unchanged."""
    out = np.eye(k)
    for j, row in mixed.items():
        out[j, j] = 0.0
        out[j, list(row)] = list(row.values())
    return out


class Gap:
    """The spectral gap of one combination after another; the same one is analysed once."""

    def __init__(self) -> None:
        self._of: Mapping[int, Mapping[int, float]] = {}
        self._found: float | None = None

    def __call__(self, mixed: Mapping[int, Mapping[int, float]], k: int) -> float | None:
        """The gap; None if there are too many servers to tell."""
        if mixed != self._of:
            self._of, self._found = mixed, spectral_gap(mixed, k)
        return self._found


def spectral_gap(mixed: Mapping[int, Mapping[int, float]], k: int) -> float | None:
    """1 minus the modulus of the second largest eigenvalue; None for too many servers.

    >>> pair = {0: {0: 0.75, 1: 0.25}, 1: {0: 0.25, 1: 0.75}}
    >>> round(spectral_gap(pair, 2), 6)
    0.5
    """
    if not 2 <= k <= LARGEST:
        return None
    a = matrix(mixed, k)
    if (alike := symmetric(a)) is not None:
        sizes = np.abs(np.linalg.eigvalsh(alike))
    elif k <= LOPSIDED:
        sizes = np.abs(np.linalg.eigvals(a))
    else:
        return None
    return float(max(0.0, 1 - np.sort(sizes)[-2]))


def symmetric(a: np.ndarray) -> np.ndarray | None:
    """A symmetric matrix with the same eigenvalues, if there are p > 0 with p_i a_ij = p_j a_ji.

    That is so wherever links lead both ways and a client counts the same, such as its size, with
    all that hear it: p_i is then its size times those of all it hears. The matrix is
    sqrt(p_i / p_j) a_ij = sqrt(a_ij a_ji).

    >>> symmetric(np.array([[0.5, 0.5], [0.125, 0.875]])).tolist()
    [[0.5, 0.25], [0.25, 0.875]]
    """
    if np.allclose(a, a.T, atol=1e-9):
        return a
    if ((a > 0) != (a.T > 0)).any():
        return None
    p = np.zeros(len(a))
    while (rest := np.flatnonzero(p == 0)).size:  # a part of the graph, neighbours by neighbours
        p[rest[0]], edge = 1.0, rest[:1]
        while edge.size:
            at, new = np.nonzero((a[edge] > 0) & (p == 0))
            new, first = np.unique(new, return_index=True)
            by = edge[at[first]]
            p[new] = p[by] * a[by, new] / a[new, by]
            edge = new
    flow = p[:, None] * a
    return np.sqrt(a * a.T) if np.allclose(flow, flow.T, rtol=1e-5, atol=0) else None
