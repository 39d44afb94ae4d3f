"""The measures of a partition's skew as a table."""

from collections.abc import Mapping
from typing import NamedTuple

from unalike.tables.cells import decimal, whole, words
from unalike.tables.model import Cell, Table

DECIMALS = 3


class Measure(NamedTuple):
    """A measure of skew: its title, what it means, and whether it is a number of things."""

    title: str
    meaning: str
    counts: bool = False


MEASURES = {
    "clients": Measure("clients", "number of clients", counts=True),
    "classes": Measure("classes", "number of classes", counts=True),
    "examples": Measure("examples", "examples of all clients", counts=True),
    "emd": Measure("EMD", "L1 distance from the pooled labels, by size"),
    "emd_unweighted": Measure("EMD, unweighted", "the same, with every client counting equally"),
    "emd_uniform": Measure("EMD, uniform", "L1 distance from uniform labels, by size"),
    "kl": Measure("KL", "Kullback-Leibler divergence from pooled, nats"),
    "js": Measure("JS", "Jensen-Shannon divergence, nats, 0 to 0.693"),
    "hellinger": Measure("Hellinger", "Hellinger distance from pooled, 0 to 1"),
    "entropy": Measure("entropy", "entropy of the labels of a client, nats"),
    "gini": Measure("Gini", "Gini coefficient of the sizes, 0 is equal"),
    "mmd": Measure("MMD", "a client's features to others', equal labels, 0 to 1.41"),
    "apart": Measure("apart", "clients whose features differ beyond chance", counts=True),
    "smallest": Measure("smallest", "examples of the smallest client", counts=True),
    "largest": Measure("largest", "examples of the largest client", counts=True),
}
SHORT = (  # beside those of others
    *("clients", "emd", "js", "hellinger", "mmd", "smallest", "largest"),
)


def skew_table(skews: Mapping[str, Mapping[str, float | None]], title: str = "") -> Table:
    """Every measure with its meaning: one row each, one column for each partition."""
    names = dict.fromkeys(
        name for skew in skews.values() for name, value in skew.items() if value is not None
    )
    rows = [
        [
            words(_measure(name).title),
            *(cell(name, skew.get(name)) for skew in skews.values()),
            words(_measure(name).meaning),
        ]
        for name in names
    ]
    return Table(title, ["measure", *skews, "meaning"], rows)


def short_table(skews: Mapping[str, Mapping[str, float | None]], title: str = "") -> Table:
    """The most telling measures: one row for each partition."""
    rows = [
        [words(label), *(cell(name, skew.get(name)) for name in SHORT)]
        for label, skew in skews.items()
    ]
    return Table(title, ["condition", *(MEASURES[name].title for name in SHORT)], rows)


def cell(name: str, value: float | None) -> Cell:
    """A measure as it is written everywhere."""
    return whole(value) if _measure(name).counts else decimal(value, DECIMALS)


def _measure(name: str) -> Measure:
    """One that a record has and this version does not know is shown without a meaning."""
    return MEASURES.get(name, Measure(name, ""))
