"""Every number of an evaluation: its name, its title, which way is better, how it is written.

A name is what records, settings and the heads of CSV files use; a title is what people read.
"""

from collections.abc import Iterable
from typing import NamedTuple

from unalike.errors import unknown


class Metric(NamedTuple):
    """What is measured on the rows of one client, or on all rows together."""

    name: str
    title: str
    higher: bool  # whether more is better
    share: bool = False  # a part of one, shown in per cent
    decimals: int = 4  # of the number that is shown
    figures: int = 0  # significant ones instead, where the unit is the data's own
    of_rows: bool = False  # the share of the rows that something holds for

    @property
    def head(self) -> str:
        """The title with the unit, as it stands above a column."""
        return f"{self.title} %" if self.share else self.title


def _share(name: str, title: str, of_rows: bool = False) -> Metric:
    return Metric(name, title, higher=True, share=True, decimals=2, of_rows=of_rows)


METRICS = {
    metric.name: metric
    for metric in (
        _share("accuracy", "accuracy", of_rows=True),
        _share("top5", "top-5 accuracy", of_rows=True),
        Metric("loss", "loss", higher=False),
        _share("precision", "precision"),
        _share("recall", "recall"),
        _share("f1", "F1"),
        _share("auroc", "AUROC"),
        Metric("ece", "ECE", higher=False, decimals=3),
        Metric("mce", "MCE", higher=False, decimals=3),
        Metric("rmse", "RMSE", higher=False, figures=4),
        Metric("mae", "MAE", higher=False, figures=4),
        Metric("r2", "R²", higher=True, decimals=3),
        Metric("adversary", "adversary AUROC", higher=False, share=True, decimals=2),
        Metric("fooled", "trained adversary AUROC", higher=False, share=True, decimals=2),
        Metric("reconstruction", "reconstruction", higher=False),
        Metric("kl", "KL", higher=False),
    )
}

MAIN = ("accuracy", "rmse", "loss")  # what tasks are judged by; all of them have a loss

# How the values of all clients become one number. All but the Gini coefficient, which has none,
# are in the unit of the metric.
STATISTICS = {
    "mean": "mean",
    "weighted_mean": "weighted mean",
    "std": "std",
    "median": "median",
    "min": "min",
    "max": "max",
    "worst10": "worst 10 %",
    "best10": "best 10 %",
    "gini": "Gini",
}

# The test data of a run, in the order in which they are shown.
TESTS = {
    "local": "clients' own test data",
    "global": "global test data",
    "new": "new clients",
    "adapted": "new clients after local steps",
    "settled": "own test data of clients that were there from the start",
    "late": "own test data of clients that joined late",
    "common": "clients' own test data, at the common point chosen on validation data",
    "oracle": "clients' own test data, at each client's best point on these same data",
}
SECTIONS = {"train": "training data", "validation": "validation data", **TESTS}
POOLED = "global"  # judged as one set of rows, so there is no spread over clients


def metric(name: str) -> Metric:
    """The metric of this name; one that is not in the catalogue is refused."""
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]


def main_metric(metrics: Iterable[str]) -> str:
    """What a test is summed up by: accuracy, the error of numbers, or else the loss."""
    names = set(metrics)
    return next((name for name in MAIN if name in names), "loss")


def higher(name: str) -> bool:
    """Whether more of the metric is better."""
    return metric(name).higher


def head(name: str, statistic: str = "mean") -> str:
    """What stands above a column: the metric itself for its mean, else the statistic.

    >>> head("accuracy"), head("accuracy", "worst10"), head("ece")
    ('accuracy %', 'worst 10 %', 'ECE')
    """
    return metric(name).head if statistic == "mean" else STATISTICS[statistic]
