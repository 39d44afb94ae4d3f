"""The results of a run's tests: the columns of its table, and whether it reached its target."""

from collections.abc import Mapping
from typing import Any

from unalike.metrics.catalogue import METRICS, POOLED, TESTS, head, main_metric, metric
from unalike.tables.cells import score
from unalike.tables.format import decimal, number, size, with_unit
from unalike.tables.model import Cell

LINE = ("common", "oracle")  # tests between shared and own models
SPREAD = ("mean", "std", "worst10", "gini")  # of the metric that is looked at
BESIDE = (  # their means
    *("accuracy", "rmse", "mae", "r2", "loss", "reconstruction", "kl", "f1", "auroc", "ece"),
)


def distinct(metrics: Mapping[str, Any]) -> list[str]:
    """The tests in a record; points of a line are left out if the method has no line.

    Records keep them, so that methods with and without one can be compared.
    """
    there = [section for section in TESTS if section in metrics]
    no_line = all(metrics.get(s) == metrics.get("local") for s in LINE if s in metrics)
    return [s for s in there if not (no_line and s in LINE)]


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
        "others are left out of means."
        for (some, total), names in groups.items()
    ]


def _value(metrics: Mapping[str, Any], section: str, name: str, statistic: str) -> float | None:
    if name not in metrics or (section == POOLED and statistic != "mean"):
        return None
    value: float | None = metrics[name][statistic]
    return value


def reached(target: Mapping[str, Any]) -> str:
    """When the value aimed at was reached, what had been sent by then, and how long it took.

    The time is that of the simulated clock, where there is one.
    """
    name = main_metric(target)
    goal = f"{metric(name).title} {with_unit(target[name], name)} on {TESTS[target['section']]}"
    if target["round"] is None:
        return f"{goal} was not reached"
    after = f"after {size(target['bytes'])}"
    if target.get("clock") is not None:
        after += f" and {decimal(target['clock'], 1)} s of the simulated clock"
    return f"{goal} was reached in round {target['round']}, {after}"


def leaked(summary: Mapping[str, Any]) -> list[str]:
    """What an outsider could do with the last models, as far as it was measured."""
    said = []
    door, told = (summary.get(k, {}) for k in ("backdoor", "membership"))
    if door.get("success") is not None:
        said.append(
            f"with the backdoor's trigger {100 * door['success']:.1f} % of the test rows of other "
            f"classes are taken for the attackers' target, without it {100 * door['clean']:.1f} %"
        )
    if told.get("mean") is not None:
        said.append(
            f"losses tell a client's training rows from its test rows with an AUC of "
            f"{told['mean']:.3f} on average, {told['worst']:.3f} at worst; 0.5 is a coin flip"
        )
    return said


def like_real(made: Mapping[str, Any]) -> str:
    """How similar generated examples are to real ones: their distance, and what they cover."""
    real, drawn = made["fid_rows"]
    said = (
        f"{drawn} generated examples are at a distance (FID) of {made['fid']:.3g} "
        f"from {real} real ones"
    )
    known = {c: v for c, v in enumerate(made["coverage"]) if v is not None}
    if not known:
        return said
    ends = (f(known, key=lambda c: known[c]) for f in (min, max))
    low, high = (f"{100 * known[c]:.0f} % (class {c})" for c in ends)
    return f"{said} and cover from {low} to {high} of a class"


def scores(record: Mapping[str, Any]) -> str:
    """The round's accuracies in a few words; losses where there is no accuracy."""
    metrics = record["metrics"] or {}
    found = {section: metrics[section] for section in distinct(metrics)}
    if not found:
        return ""
    main = main_metric(next(iter(found.values())))
    shown = [f"{s} {number(m.get(main, {}).get('mean'), main)}" for s, m in found.items()]
    return "  ".join([head(main), *shown])
