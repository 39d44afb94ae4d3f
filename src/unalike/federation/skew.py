"""How much clients differ, measured on a table of counts by client and class.

With n_k the size of client k, N = sum n_k, p_k its label distribution and p the reference:

EMD        sum_y |p_k(y) - p(y)|             L1 (twice total variation), in [0, 2 - 2 min p]
KL         sum_y p_k(y) ln(p_k(y) / p(y))    from client to reference, nats; 0 ln 0 = 0
JS         (KL(p_k|m) + KL(p|m)) / 2         m = (p_k + p)/2, nats, in [0, ln 2]
Hellinger  sqrt(1 - sum_y sqrt(p_k p))       in [0, 1]
entropy    -sum_y p_k(y) ln p_k(y)           nats, in [0, ln M]

The summary of each is its mean over clients weighted by n_k/N; weighted EMD is the EMD of the
literature on non-iid samplers. The reference is the pooled distribution (every class a client holds
is in it, so KL is finite) or the uniform one. Size skew is the Gini coefficient of the n_k.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unalike.errors import DataError, unknown
from unalike.metrics.fairness import gini

Floats = NDArray[np.float64]
Reference = Literal["pooled", "uniform"]


def emd_per_client(counts: np.ndarray, reference: Reference = "pooled") -> Floats:
    """L1 distance of each client's label distribution from the reference."""
    mixes, target = _distributions(counts, reference)
    return _row_sums(np.abs(mixes - target))


def emd(counts: np.ndarray, reference: Reference = "pooled", weighted: bool = True) -> float:
    """Mean L1 distance over clients, weighted by size or plain.

    >>> round(emd(np.array([[10, 0, 0], [5, 5, 10], [0, 30, 20]])), 6)
    0.53125
    """
    distances = emd_per_client(counts, reference)
    return weighted_mean(distances, counts) if weighted else float(distances.mean())


def kl_per_client(counts: np.ndarray, reference: Reference = "pooled") -> Floats:
    """KL(client | reference) of each client, in nats."""
    mixes, target = _distributions(counts, reference)
    return _kl(mixes, target)


def js_per_client(counts: np.ndarray, reference: Reference = "pooled") -> Floats:
    """Jensen-Shannon divergence of each client from the reference, in nats."""
    mixes, target = _distributions(counts, reference)
    middle = (mixes + target) / 2
    return (_kl(mixes, middle) + _kl(np.broadcast_to(target, mixes.shape), middle)) / 2


def hellinger_per_client(counts: np.ndarray, reference: Reference = "pooled") -> Floats:
    """Hellinger distance of each client from the reference."""
    mixes, target = _distributions(counts, reference)
    # As a sum of squares; 1 - sum sqrt(p q) would lose half the digits near zero.
    return np.sqrt(_row_sums(np.square(np.sqrt(mixes) - np.sqrt(target))) / 2)


def entropy_per_client(counts: np.ndarray) -> Floats:
    """Entropy of each client's labels, in nats."""
    mixes, _ = _distributions(counts, "uniform")
    return _row_sums(-mixes * _log(mixes)) + 0.0  # no negative zero


def weighted_mean(values: np.ndarray, counts: np.ndarray) -> float:
    """The mean over clients, each weighted by the examples it holds."""
    return float(np.average(values, weights=np.asarray(counts).sum(axis=1)))


class GroupEmd(NamedTuple):
    """How much groups of clients differ: phases, clusters, neighbourhoods."""

    whole: Floats  # [groups] EMD of a group's pooled labels from those of all clients
    between: Floats  # [groups, groups] EMD between the pooled labels of two groups
    mean: float  # of ``whole``, by the examples of the groups
    mean_between: float  # over the pairs of different groups; 0 if there is one group


def group_emd(counts: np.ndarray, groups: Sequence[Sequence[int] | np.ndarray]) -> GroupEmd:
    """EMD of each group's pooled labels against the whole, and between groups.

    Args:
        counts: Examples by client and class.
        groups: The clients of each group; groups may overlap and need not hold all clients.

    >>> found = group_emd(np.array([[4, 0], [0, 4], [4, 0], [2, 2]]), [[0, 1], [2, 3]])
    >>> found.whole.tolist(), found.between.tolist(), found.mean
    ([0.25, 0.25], [[0.0, 0.5], [0.5, 0.0]], 0.25)
    """
    counts = np.asarray(counts, dtype=float)
    _, pooled = _distributions(counts, "pooled")
    for number, group in enumerate(groups):
        inside = np.asarray(group, dtype=np.int64)
        if not len(inside) or inside.min() < 0 or inside.max() >= len(counts):
            raise DataError(
                f"group {number} must name some of the clients 0 to {len(counts) - 1}, "
                f"got {inside.tolist()}."
            )
    if not groups:
        raise DataError("there must be at least one group of clients.")
    tables = np.stack([counts[np.asarray(group, dtype=np.int64)].sum(axis=0) for group in groups])
    mixes = tables / tables.sum(axis=1, keepdims=True)
    whole = _row_sums(np.abs(mixes - pooled))
    between = np.stack([_row_sums(np.abs(mixes - mix)) for mix in mixes])
    n = len(groups)
    return GroupEmd(
        whole, between, weighted_mean(whole, tables), float(between.sum() / max(n * (n - 1), 1))
    )


@dataclass(frozen=True)
class Skew:
    """Every measure of a partition: one number each, and one per client."""

    clients: int
    classes: int
    examples: float
    emd: float
    emd_unweighted: float
    emd_uniform: float
    kl: float
    js: float
    hellinger: float
    entropy: float
    gini: float
    smallest: float
    largest: float
    sizes: np.ndarray
    emd_per_client: Floats
    kl_per_client: Floats
    js_per_client: Floats
    hellinger_per_client: Floats
    entropy_per_client: Floats

    def as_dict(self) -> dict[str, float]:
        """The summary numbers as plain floats; per-client vectors are left out."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: float(v) for name, v in values.items() if not isinstance(v, np.ndarray)}


def measure(counts: np.ndarray) -> Skew:
    """Every measure of a table of counts [clients, classes], against the pooled distribution."""
    counts = np.asarray(counts)
    distances = emd_per_client(counts)
    kl, js = kl_per_client(counts), js_per_client(counts)
    hellinger, entropy = hellinger_per_client(counts), entropy_per_client(counts)
    sizes = counts.sum(axis=1)
    return Skew(
        clients=len(counts),
        classes=counts.shape[1],
        examples=float(sizes.sum()),
        emd=weighted_mean(distances, counts),
        emd_unweighted=float(distances.mean()),
        emd_uniform=emd(counts, "uniform"),
        kl=weighted_mean(kl, counts),
        js=weighted_mean(js, counts),
        hellinger=weighted_mean(hellinger, counts),
        entropy=weighted_mean(entropy, counts),
        gini=gini(sizes),
        smallest=float(sizes.min()),
        largest=float(sizes.max()),
        sizes=sizes,
        emd_per_client=distances,
        kl_per_client=kl,
        js_per_client=js,
        hellinger_per_client=hellinger,
        entropy_per_client=entropy,
    )


def _distributions(counts: np.ndarray, reference: Reference) -> tuple[Floats, Floats]:
    """The label distribution of each client, and that of the reference."""
    counts = np.asarray(counts, dtype=float)
    if counts.ndim != 2 or 0 in counts.shape:
        raise DataError(f"counts must be a table [clients, classes], got shape {counts.shape}.")
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise DataError("counts must be finite and not negative.")
    sizes = counts.sum(axis=1)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        raise DataError(
            f"client {empty[0]} holds no example ({len(empty)} such clients), so its label "
            "distribution is undefined; leave empty clients out."
        )
    classes = counts.shape[1]
    references = {
        "pooled": counts.sum(axis=0) / sizes.sum(),
        "uniform": np.full(classes, 1 / classes),
    }
    if reference not in references:
        raise unknown("reference", reference, references)
    return counts / sizes[:, None], references[reference]


def _row_sums(table: Floats) -> Floats:
    sums: Floats = table.sum(axis=1)
    return sums


def _kl(p: Floats, q: Floats) -> Floats:
    # Rounding can leave -1e-17 where the two are equal.
    return np.maximum(_row_sums(p * (_log(p) - _log(q))), 0.0)


def _log(p: Floats) -> Floats:
    """The logarithm where p is positive, else 0: such terms are multiplied by p = 0."""
    return np.log(p, out=np.zeros_like(p), where=p > 0)
