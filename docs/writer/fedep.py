"""Tables of docs/results/fedep-mixed.md that come from comparisons."""

from statistics import mean

from unalike.compare.statistics.reuse import Reuse, resplit
from writer.results import Line, against, difference, runs, spread, table, value


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
