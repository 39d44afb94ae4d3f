"""Every table of docs/results, computed from the records that lie beside the pages."""

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from unalike.compare.statistics.family import holm
from unalike.compare.statistics.known import ALPHA
from unalike.compare.statistics.paired import Paired, paired
from unalike.compare.statistics.reuse import Reuse

PLACE = Path(__file__).resolve().parent.parent / "results"
Line = dict[str, Any]
Row = Sequence[str]


@cache
def lines(name: str) -> list[Line]:
    """The records of a file."""
    text = (PLACE / name).read_text(encoding="utf-8")
    if name.endswith(".csv"):
        return list(csv.DictReader(text.splitlines()))
    return [json.loads(line) for line in text.splitlines()]


def runs(file: str, **wanted: Any) -> list[Line]:
    """The runs of one comparison, by seed."""
    found = [x for x in lines("runs.jsonl") if x["file"] == file]
    found = [x for x in found if all(x[k] == v for k, v in wanted.items())]
    return sorted(found, key=lambda x: x["seed"])


def table(head: Row, rows: Iterable[Row], left: int = 1) -> str:
    """Markdown; the first columns to the left, the others to the right."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """With a real minus."""
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def spread(values: Sequence[float], digits: int = 2, scale: float = 100.0) -> str:
    """Mean ± deviation; of a single run the number alone."""
    some = [scale * v for v in values]
    if len(some) < 2:
        return number(some[0], digits) if some else "–"
    return f"{number(mean(some), digits)} ± {number(stdev(some), digits)}"


def difference(found: Paired, digits: int = 2, scale: float = 100.0) -> str:
    """Mean and interval."""
    middle = number(scale * found.mean, digits, sign=True)
    if found.low is None or found.high is None:
        return middle
    low, high = (number(scale * v, digits, sign=True) for v in (found.low, found.high))
    return f"{middle} [{low}, {high}]"


def chance(p: float) -> str:
    """A p-value."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def value(section: str, metric: str = "accuracy", statistic: str = "mean") -> Callable[..., float]:
    """The number of a run's last round."""
    return lambda x: float(x["last"][section][metric][statistic])


def best(section: str) -> Callable[[Line], float]:
    """The largest of a run's curve: a choice by the very rows it is reported on."""
    return lambda x: float(max(v for v in x["curve"][section] if v is not None))


def against(
    some: list[Line],
    base: list[Line],
    of: Callable[..., float],
    reuse: Reuse,
    alpha: float = ALPHA,
) -> Paired:
    """Differences over the seeds that both have."""
    ours, theirs = ({x["seed"]: of(x) for x in group} for group in (some, base))
    seeds = sorted(ours.keys() & theirs.keys())
    return paired([ours[s] for s in seeds], [theirs[s] for s in seeds], reuse=reuse, alpha=alpha)


def together(pairs: dict[str, Callable[[float], Paired]]) -> dict[str, tuple[Paired, float]]:
    """Differences by name, of which each can be made at any level, corrected by Holm.

    Of each its p and the interval that says the same about zero.
    """
    raw = {name: made(ALPHA).p for name, made in pairs.items()}
    p, times = holm([1.0 if p is None else p for p in raw.values()])
    return {
        name: (made(ALPHA / times[i]), float(p[i])) for i, (name, made) in enumerate(pairs.items())
    }


def vae() -> str:
    """Latent-space weights by the authors' protocol."""
    printed = {
        ("mnist", "niid2", 0.0): ("644.79", "550.20"),
        ("mnist", "niid2", 0.9): ("587.99", "520.38"),
        ("mnist", "niid1", 0.0): ("640.92", "517.35"),
        ("mnist", "niid1", 0.9): ("558.73", "538.48"),
        ("fashion_mnist", "niid2", 0.0): ("691.03", "478.25"),
        ("fashion_mnist", "niid2", 0.9): ("473.07", "446.98"),
    }
    titles = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
    rows = []
    for partition, data, alpha in sorted(
        {(x["partition"], x["data"], x["alpha"]) for x in runs("vae")}
    ):
        some = runs("vae", partition=partition, data=data, alpha=alpha)
        first, last = printed.get((data, partition, alpha), ("–", "–"))
        kept = ", ".join(sorted({str(x["nonzero"]) for x in some}))
        kept = "none, so by size" if some[0]["fallback_rounds"] else kept
        title = f"{titles[data]} {partition.upper().replace('ID', 'ID-')}"
        told = [spread([x["loss"][i] for x in some], 1, 1.0) for i in (0, 1, 2, -1)]
        seeds = str(len(some))
        rows.append([title, f"{alpha:g}", kept, told[0], first, *told[1:], last, seeds])
    head = ["", "α", "clients with a weight", "round 1", "authors", "2", "3", "25", "authors"]
    return table([*head, "seeds"], rows, left=3)


def vae_paired() -> str:
    """By how much weights lower the loss by the authors' protocol, and whether it varies less."""
    from scipy.stats import pearsonr

    rows, printed = [], {"fashion_mnist": "6.54 %", "mnist": "5.4 %"}
    for data, title in (("fashion_mnist", "Fashion-MNIST"), ("mnist", "MNIST")):
        made = {a: runs("vae", partition="niid2", data=data, alpha=a) for a in (0.0, 0.9)}
        ends = {a: {x["seed"]: x["loss"][-1] for x in some} for a, some in made.items()}
        plain, ours = (np.array([of[s] for s in sorted(ends[0.9])]) for of in ends.values())
        lower = paired(list(ours / plain), [1.0] * len(plain))
        low, high = (number(-100 * v) for v in (lower.high or 0.0, lower.low or 0.0))
        gain = f"{number(-100 * lower.mean)} % [{low}, {high}]"
        deviations = [number(float(x.std(ddof=1)), 1) for x in (plain, ours)]
        p = chance(pearsonr(plain + ours, plain - ours).pvalue)
        rows.append([title, gain, printed[data], *deviations, p])
    head = ["NIID-2", "loss at α = 0.9 lower by", "in print", "FedAvg varies by", "α = 0.9 by", "p"]
    return table(head, rows)


def vae_glorot() -> str:
    """The earlier five seeds, which began with Glorot's weights."""
    found = lines("vae-niid2.jsonl")
    alphas = {a: [x["loss"] for x in found if x["alpha"] == a] for a in (0.0, 0.9)}
    lower = paired([b[-1] / a[-1] for a, b in zip(*alphas.values(), strict=True)], [1.0] * 5)
    low, high = (number(-100 * v) for v in (lower.high or 0.0, lower.low or 0.0))
    rows = []
    for alpha, name, of, printed in (
        (0.0, "0 (FedAvg)", "6", "691.03 → 478.25"),
        (0.9, "0.9", "1", "473.07 → 446.98"),
    ):
        ends = [spread([x[i] for x in alphas[alpha]], 1, 1.0) for i in (0, -1)]
        gain = f"{number(-100 * lower.mean)} % [{low}, {high}]" if alpha else ""
        rows.append([name, of, *ends, gain, printed])
    head = ["α", "clients with a weight", "round 1", "round 25", "lower than FedAvg", "authors"]
    return table(head, rows)


def vae_variance() -> str:
    """Whether losses vary less between seeds: Pitman and Morgan's test of two paired variances."""
    from scipy.stats import pearsonr

    found, rows = lines("vae-niid2.jsonl"), []
    for name, i in (("1", 0), ("25", -1)):
        plain, ours = (np.array([x["loss"][i] for x in found if x["alpha"] == a]) for a in (0, 0.9))
        deviations = [number(float(x.std(ddof=1)), 1) for x in (plain, ours)]
        rows.append([name, *deviations, chance(pearsonr(plain + ours, plain - ours).pvalue)])
    return table(["round", "FedAvg", "α = 0.9", "p"], rows)


def compression() -> str:
    """Accuracy against bytes."""
    base = runs("compression", label="FedAvg")
    labels = {x["label"]: x["bytes_up"] for x in runs("compression")}
    rows = []
    for label in sorted(labels, key=lambda name: -labels[name]):
        some = runs("compression", label=label)
        told = [spread([value("global")(x) for x in some]), "–"]
        if label != "FedAvg":
            found = against(some, base, value("global"), Reuse(fixed=10_000))
            told[1] = difference(found)
        share = labels[label] / labels["FedAvg"]
        megabytes = f"{labels[label] / 1e6:.1f}"
        rows.append([label, megabytes, f"{100 * share:.1f} %", *told, str(len(some))])
    head = ["upload", "MB up", "of FedAvg's", "accuracy", "difference", "seeds"]
    return table(head, rows)
