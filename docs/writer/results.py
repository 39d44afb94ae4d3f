"""Every table of docs/results, computed from the records that lie beside the pages."""

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from unalike.compare.statistics.family import holm
from unalike.compare.statistics.paired import Paired, paired
from unalike.compare.statistics.reuse import Reuse, resplit

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


def against(some: list[Line], base: list[Line], of: Callable[..., float], reuse: Reuse) -> Paired:
    """Differences over the seeds that both have."""
    ours, theirs = ({x["seed"]: of(x) for x in group} for group in (some, base))
    seeds = sorted(ours.keys() & theirs.keys())
    return paired([ours[s] for s in seeds], [theirs[s] for s in seeds], reuse=reuse)


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


def lg_mnist() -> str:
    """LG-FedAvg's first table, MNIST, by the authors' protocol."""
    printed = {"FedAvg": (98.15, 98.15), "local only": (97.17, 84.01), "LG-FedAvg": (98.66, 97.81)}
    rows = []
    for label, (own, new) in printed.items():
        some = runs("lg-mnist", label=label)
        told = [spread([of(x) for x in some]) for of in (value("local"), best("local"))]
        rows.append([label, *told, f"{own}", spread([value("global")(x) for x in some]), f"{new}"])
    head = ["method", "own test", "*best on test*", "authors", "new test", "authors"]
    return table(head, rows)


def lg_cifar() -> str:
    """What initialisation, augmentation and rows do on CIFAR-10."""
    rows = []
    for file in ("lg-cifar", "lg-cifar-more"):
        for condition in sorted({x["condition"] for x in runs(file)}, reverse=True):
            shared = runs(file, condition=condition, label="LG-FedAvg, body shared")
            alone = runs(file, condition=condition, label="local only")
            ends = [[x["curve"][s][-2] for x in shared] for s in ("local", "global")]
            told = [ends[0], *([of(x) for x in shared] for of in (value("local"), best("local")))]
            told += [[value("local")(x) for x in alone], ends[1]]
            told += [[value("global")(x) for x in of] for of in (shared, alone)]
            rows.append([condition, *map(spread, told)])
    paper = ["*in print*", "59.94", "", "89.66", "86.81", "59.94", "59.63", "54.83"]
    head = ["start, pictures, rows", "FedAvg", "LG-FedAvg", "*LG, best on test*", "alone"]
    return table([*head, "FedAvg, new", "LG, new", "alone, new"], [*rows, paper])


def lg_late() -> str:
    """A device that joins late with turned pictures."""
    printed = {
        ("iid", "0", "FedAvg"): ("32.01", "91.83"),
        ("iid", "0", "LG-FedAvg"): ("96.55", "92.92"),
        ("iid", "0.1", "FedAvg"): ("97.35", "89.29"),
        ("iid", "0.1", "FedProx"): ("94.82", "87.19"),
        ("iid", "0.1", "LG-FedAvg"): ("97.66", "93.16"),
        ("two shards", "0", "FedAvg"): ("35.70", "93.58"),
        ("two shards", "0", "LG-FedAvg"): ("96.31", "94.12"),
        ("two shards", "0.1", "FedAvg"): ("96.89", "89.62"),
        ("two shards", "0.1", "FedProx"): ("97.86", "91.58"),
        ("two shards", "0.1", "LG-FedAvg"): ("98.16", "93.88"),
    }
    rows = []
    for data in ("iid", "two shards"):
        for share in ("0", "0.1"):
            for label in ("FedAvg", "FedProx", "LG-FedAvg"):
                where = f"{data}, participation.others={share}"
                some = runs("lg-late", condition=where, label=label)
                told = [spread([value(s)(x) for x in some], 1) for s in ("settled", "late")]
                theirs = printed.get((data, share, label), ("–", "–"))
                rows.append([data, share, label, told[0], theirs[0], told[1], theirs[1]])
    head = ["data", "C", "method", "the others", "authors", "the newcomer", "authors"]
    return table(head, rows, left=3)


def lg_fair() -> str:
    """Race and sex hidden from an adversary."""
    rows = []
    for condition in ("iid", "two shards"):
        for label in ("FedAvg", "LG-FedAvg-Adv", "LG-FedAvg+Adv"):
            some = runs("lg-fair", condition=condition, label=label)
            told = [
                spread([value("local", m)(x) for x in some if m in x["last"]["local"]], 1)
                for m in ("accuracy", "auroc", "fooled", "adversary")
            ]
            name = label.replace("-Adv", " without").replace("+Adv", " with")
            rows.append([condition, name, *told])
    head = ["data", "method", "accuracy", "AUROC", "its own adversary", "a fresh adversary"]
    return table(head, rows, left=2)


def single(file: str, order: Sequence[tuple[str, str]] = ()) -> list[Row]:
    """The global accuracy of comparisons with one seed."""
    found = {(x["condition"], x["label"]): value("global")(x) for x in runs(file)}
    return [[*key, spread([found[key]])] for key in order or sorted(found)]


def emd() -> str:
    """Samplers of equal EMD."""
    rows = [[c.partition(" ")[0], c.partition(" ")[2] or "–", v] for c, _, v in single("emd")]
    rows = [["0", "iid", v] if name == "iid" else [name, how, v] for name, how, v in rows]
    return table(["EMD", "sampler", "accuracy"], sorted(rows), left=2)


def phase_shift() -> str:
    """Four phases, and FedAvg with their bytes."""
    rows = []
    for file in ("phase-shift", "phase-shift-digits"):
        for condition in sorted({x["condition"] for x in runs(file)}):
            base = runs(file, condition=condition, label="FedAvg")
            for label in ("FedAvg", "4 phases", "FedAvg as 4"):
                some, lead = runs(file, condition=condition, label=label), "–"
                if label != "FedAvg" and len(some) > 2:
                    lead = difference(against(some, base, value("global"), resplit(0.2)))
                ours, theirs = (x[0]["bytes_up"] + x[0]["bytes_down"] for x in (some, base))
                told = [f"{100 * ours / theirs:.0f} %", spread([value("global")(x) for x in some])]
                rows.append([condition, label, *told, lead, str(len(some))])
    head = ["data", "method", "bytes", "accuracy", "difference to FedAvg", "seeds"]
    return table(head, rows, left=2)


def fedaug() -> str:
    """FedAug and phase-shift on CIFAR-10."""
    return table(["method", "accuracy"], [[m, v] for _, m, v in single("fedaug-cifar")])


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


def fedep() -> str:
    """FedEP without a server: accuracy, and what the skewed nodes have of it."""
    rows = []
    for condition in sorted({x["condition"] for x in runs("fedep-complete")}, reverse=True):
        base = runs("fedep-complete", condition=condition, label="FedAvg")
        for label in ("FedAvg", "FedEP", "FedEP listing", "SCAFFOLD"):
            some = runs("fedep-complete", condition=condition, label=label)
            told = [spread([value("global")(x) for x in some])]
            for of, reuse in ((value("global"), Reuse(fixed=10_000)), (_skewed, resplit(0.1))):
                other = label != "FedAvg"
                told.append(difference(against(some, base, of, reuse)) if other else "–")
            rows.append([condition, label, *told, str(len(some))])
    head = ["iid : skewed", "method", "accuracy", "difference to FedAvg", "for skewed nodes"]
    return table([*head, "seeds"], rows, left=2)


def _skewed(x: Line) -> float:
    """The mean over skewed clients, on their own rows."""
    both = zip(x["clients"]["local"], x["clients"]["marks"], strict=True)
    return mean(accuracy for accuracy, mark in both if mark != "alpha = 50")


def topologies() -> str:
    """The same runs under a server that stays, one that rotates, and none."""
    rows = []
    for label in ("FedAvg", "FedEP", "FedEP listing", "SCAFFOLD"):
        told = []
        for where in ("star", "rotating", "complete"):
            some = [x for x in runs(f"fedep-{where}", label=label) if x["seed"] < 2]
            told.append(f"{100 * mean(value('global')(x) for x in some):.2f}")
        rows.append([label, *told])
    return table(["method", "star", "rotating", "complete"], rows)


def whole(file: str, label: str) -> list[Line]:
    """The runs of those seeds that every method of a comparison has."""
    found: dict[int, int] = {}
    for x in runs(file):
        found[x["seed"]] = found.get(x["seed"], 0) + 1
    return [x for x in runs(file, label=label) if found[x["seed"]] == max(found.values())]


def fair(file: str) -> str:
    """Fair weights, with intervals for fresh rows."""
    base, rows, raw = whole(file, "FedAvg"), list[list[str]](), list[float]()
    labels = list(dict.fromkeys(x["label"] for x in runs(file) if "+ AAggFF" not in x["label"]))
    for label in ["FedAvg", "uniform", *(n for n in labels if n not in ("FedAvg", "uniform"))]:
        some, row = whole(file, label), [label]
        for statistic in ("weighted_mean", "min"):
            of = value("local", "auroc", statistic)
            row.append(spread([of(x) for x in some]))
            found = against(some, base, of, resplit(0.2))
            row.append("–" if label == "FedAvg" else difference(found))
            if statistic == "weighted_mean" and label != "FedAvg":
                raw.append(found.p or 1.0)
        rows.append(row)
    for row, p in zip(rows[1:], holm(raw).p, strict=True):
        row.append(chance(float(p)))
    rows[0].append("–")
    head = ["method", "AUROC %", "difference to FedAvg", "worst client", "difference"]
    return table([*head, "p of the mean"], rows)


def plug_in() -> str:
    """AAggFF-S against the same server without it."""
    printed = {"FedAvg": ("+0.62", "+1.34"), "FedProx": ("+0.56", "+1.23")}
    printed |= {"FedAdam": ("+0.50", "+1.56"), "FedYogi": ("+0.57", "+1.33")}
    printed |= {"FedAdagrad": ("+0.48", "+1.00")}
    rows = []
    for server, (theirs, worst) in printed.items():
        base, some = whole("heart", server), whole("heart", f"{server} + AAggFF")
        both = [
            against(some, base, value("local", "auroc", s), resplit(0.2))
            for s in ("weighted_mean", "min")
        ]
        plain = spread([value("local", "auroc", "weighted_mean")(x) for x in base])
        rows.append([server, plain, difference(both[0]), theirs, difference(both[1]), worst])
    head = ["server", "AUROC % without", "with AAggFF-S", "in print", "worst hospital", "in print"]
    return table(head, rows)
