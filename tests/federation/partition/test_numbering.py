"""Client numbers carry no meaning: groups by number are random groups.

For every partition the mean and the spread of its groups' EMD (blocks are phases, strides are
clusters, neighbours are those of a ring) are ranked among 99 regroupings of the same clients at
random. If numbers mean nothing, ranks are uniform; ties are broken at random, so that this holds
exactly. 200 ranks are tested for it by Kolmogorov and Smirnov, at a level of 0.01 for all tests of
this file together.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from partitions import counted
from scipy.stats import kstest

from unalike.federation.partition import PARTITIONERS, Partitioner
from unalike.federation.partition.base import Labels, numbered
from unalike.federation.skew import group_emd

DRAWS, REGROUPINGS, CLASSES = 200, 99, 10


class Case(NamedTuple):
    """A partitioner with settings, and how many groups its clients are put into."""

    name: str
    settings: dict[str, Any]
    groups: int = 4

    def made(self) -> Partitioner:
        """The partitioner; 20 clients unless it says otherwise."""
        return PARTITIONERS[self.name](**{"clients": 20, **self.settings})


CASES = [
    Case("dirichlet", {"alpha": 0.3}),
    Case("dirichlet", {"alpha": 0.3, "rounding": "truncate"}),
    Case("dirichlet", {"alpha": 0.3, "per": "client"}),
    Case("dirichlet", {"target": 1.2}),
    Case("mixed", {"sizes": [10, 10], "alphas": [50.0, 0.2]}),
    Case("mixed", {"sizes": [10, 10], "mode": "per_class_vector"}),
    Case("shards", {}),
    Case("shards", {"assignment": "strided"}),
    Case("limit_label", {"t": 1, "f": 0.8}),
    Case("limit_label", {"t": 2, "f": 1.0}),
    Case("limit_label", {"t": 5, "f": 1.0}, groups=5),
    Case("q_sampler", {"q": 0.7}),
    Case("limit_label_q", {"t": 2, "q": 0.9}, groups=5),
    Case("emd", {"target": 1.2}),
    Case("niid1", {}),
    Case("niid2", {"clients": 6}, groups=3),
    Case("natural", {"clients": 0}),
]
HOW = ("blocks", "strides", "neighbours")
WHAT = ("mean", "spread")
LEVEL = 0.01 / (len(CASES) * len(HOW) * len(WHAT))
# Partitioners that deal in an order of their own, and the groups that would give it away.
ORDERED = [
    ("mixed", {}, "blocks", "spread"),
    ("shards", {"assignment": "strided"}, "strides", "mean"),
    ("q_sampler", {}, "blocks", "mean"),
    ("q_sampler", {}, "strides", "mean"),
    ("emd", {}, "neighbours", "mean"),
    ("natural", {"clients": 0}, "blocks", "mean"),
]

LABELS = Labels(
    np.arange(1000) % CLASSES,
    CLASSES,
    groups=np.arange(1000) // 10 % 2 * 10 + np.arange(1000) % 10,  # a class for each group
)


def members(clients: int, groups: int) -> dict[str, np.ndarray]:
    """Who is in which group by number, [groups, clients]."""
    number, group = np.arange(clients), np.arange(groups)[:, None]
    near = np.arange(clients)[:, None]
    return {
        "blocks": number * groups // clients == group,
        "strides": number % groups == group,
        "neighbours": np.minimum((number - near) % clients, (near - number) % clients) <= 1,
    }


def statistics(counts: np.ndarray, inside: np.ndarray) -> dict[str, np.ndarray]:
    """Mean and spread over groups of their EMD, for tables [many, clients, classes]."""
    tables = inside.astype(float) @ counts
    mixes = tables / tables.sum(axis=2, keepdims=True)
    pooled = counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None]
    emd = np.abs(mixes - pooled[:, None]).sum(axis=2)
    return {"mean": emd.mean(axis=1), "spread": emd.std(axis=1)}


def rank(values: np.ndarray, lot: float) -> float:
    """Where the first value lies among all of them, in [0, 1]."""
    own, others = values[0], values[1:]
    equal = np.abs(others - own) < 1e-9
    below = ((others < own) & ~equal).sum()
    return float((below + lot * (equal.sum() + 1)) / len(values))


def pvalues(
    partitioner: Partitioner, groups: int, by_number: bool = True, draws: int = DRAWS
) -> dict[tuple[str, str], float]:
    """Of uniform ranks over many partitions, numbered or in the partitioner's own order."""
    ranks: dict[tuple[str, str], list[float]] = {}
    for seed in range(draws):
        rng, chance = np.random.default_rng(seed), np.random.default_rng((seed, 1))
        deal = partitioner.assign(LABELS, rng).owner if by_number else partitioner.draw(LABELS, rng)
        clients = int(deal.max()) + 1
        counts = counted(deal, LABELS.labels, clients, CLASSES)
        orders = np.array([chance.permutation(clients) for _ in range(REGROUPINGS)])
        tables = np.concatenate([counts[None], counts[orders]])
        for how, inside in members(clients, groups).items():
            for what, values in statistics(tables, inside).items():
                ranks.setdefault((how, what), []).append(rank(values, chance.random()))
    return {key: float(kstest(found, "uniform").pvalue) for key, found in ranks.items()}


def identity(case: Case) -> str:
    return "-".join([case.name, *map(str, case.settings.values())])


def test_every_partitioner_with_label_skew_has_a_case() -> None:
    assert {case.name for case in CASES} == set(PARTITIONERS) - {"iid", "quantity"}


def test_the_statistic_is_the_groups_emd() -> None:
    counts = np.random.default_rng(0).integers(1, 20, (8, 5))
    for inside in members(8, 4).values():
        own = group_emd(counts, [np.flatnonzero(row) for row in inside]).whole
        found = statistics(counts[None], inside)
        assert found["mean"][0] == pytest.approx(own.mean())
        assert found["spread"][0] == pytest.approx(own.std())


@pytest.mark.parametrize("case", CASES, ids=identity)
def test_groups_by_number_are_random_groups(case: Case) -> None:
    found = pvalues(case.made(), case.groups)
    assert set(found) == {(how, what) for how in HOW for what in WHAT}
    assert min(found.values()) > LEVEL, found


@pytest.mark.parametrize(("name", "settings", "how", "what"), ORDERED)
def test_the_order_of_the_deal_would_be_found_out(
    name: str, settings: dict[str, Any], how: str, what: str
) -> None:
    """The same test on the partitioner's own order, with a quarter of the draws."""
    case = next(c for c in CASES if c.name == name and settings.items() <= c.settings.items())
    assert pvalues(case.made(), case.groups, by_number=False, draws=50)[how, what] < 1e-6


def test_all_orders_are_equally_probable() -> None:
    """3,000 draws of the 6 orders of three clients: chi-square with 5 degrees, level 0.001."""
    rng = np.random.default_rng(0)
    owner = np.array([0, 1, 2, -1])
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(3000):
        found = numbered(owner, 3, rng, names=("a", "b", "c"), marks=("x", "y", "z"))
        order = tuple(found.owner[:3].tolist())
        assert found.owner[3] == -1
        assert [found.names[k] for k in order] == ["a", "b", "c"]
        assert [found.marks[k] for k in order] == ["x", "y", "z"]
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert sum((n - 500) ** 2 / 500 for n in seen.values()) < 20.5
