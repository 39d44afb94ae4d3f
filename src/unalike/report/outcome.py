"""The results of a run's tests: the columns of its table, and whether it reached its target."""

from collections.abc import Mapping
from typing import Any

from unalike.metrics.catalogue import METRICS, POOLED, TESTS, head, main_metric, metric
from unalike.tables.cells import score
from unalike.tables.format import number, size, with_unit
from unalike.tables.model import Cell

SPREAD = ("mean", "std", "worst10", "gini")  # of the metric that is looked at
BESIDE = (  # their means
    *("accuracy", "rmse", "mae", "r2", "loss", "reconstruction", "kl", "f1", "auroc", "ece"),
)


def columns(main: str) -> dict[tuple[str, str], str]:
    """The heads of the columns by metric and statistic over clients."""
    pairs = [(main, statistic) for statistic in SPREAD]
    pairs += [(name, "mean") for name in BESIDE if name != main]
    return {pair: head(*pair) for pair in pairs}


def judged(metrics: Mapping[str, Any], section: str, main: str) -> list[Cell]:
    """One test in these columns."""
    return [
        score(_value(metrics, section, name, statistic), name, statistic)
        for name, statistic in columns(main)
    ]


def left_out(metrics: Mapping[str, Any], section: str) -> list[str]:
    """Which metrics are means over some clients only, since the others have no value."""
    groups: dict[tuple[int, int], list[str]] = {}
    for name in dict.fromkeys((*BESIDE, *METRICS)):
        spread = metrics.get(name, {})
        if section != POOLED and spread.get("undefined"):
            of = spread["clients"], spread["clients"] + spread["undefined"]
            groups.setdefault(of, []).append(METRICS[name].title)
    return [
        f"{', '.join(names)} on {TESTS[section]}: {some} of {total} clients have a value, the "
        "others enter no mean."
        for (some, total), names in groups.items()
    ]


def _value(metrics: Mapping[str, Any], section: str, name: str, statistic: str) -> float | None:
    if name not in metrics or (section == POOLED and statistic != "mean"):
        return None
    value: float | None = metrics[name][statistic]
    return value


def reached(target: Mapping[str, Any]) -> str:
    """When the value aimed at was reached, and what had been sent by then."""
    name = main_metric(target)
    goal = f"{metric(name).title} {with_unit(target[name], name)} on {TESTS[target['section']]}"
    if target["round"] is None:
        return f"{goal} was not reached"
    return f"{goal} was reached in round {target['round']}, after {size(target['bytes'])}"


def scores(record: Mapping[str, Any]) -> str:
    """The round's accuracies in a few words; losses where there is no accuracy."""
    metrics = record["metrics"] or {}
    found = {section: metrics[section] for section in TESTS if section in metrics}
    if not found:
        return ""
    main = main_metric(next(iter(found.values())))
    shown = [f"{s} {number(m.get(main, {}).get('mean'), main)}" for s, m in found.items()]
    return "  ".join([head(main), *shown])
