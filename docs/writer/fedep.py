"""Tables of docs/results/fedep-mixed.md that come from comparisons."""

from statistics import mean

from unalike.compare.statistics.reuse import Reuse, resplit
from writer.results import Line, against, difference, number, runs, spread, table, value

LABELS = ("FedAvg", "FedEP", "FedEP listing", "SCAFFOLD")


def fedep(file: str) -> str:
    """FedEP beside FedAvg and SCAFFOLD: accuracy, and what the skewed nodes have of it."""
    rows = []
    for condition in sorted({x["condition"] for x in runs(file)}, reverse=True):
        base = runs(file, condition=condition, label="FedAvg")
        for label in LABELS:
            some = runs(file, condition=condition, label=label)
            if not some:
                continue
            told = [spread([value("global")(x) for x in some])]
            test_set = Reuse(fixed=10_000)
            for of, reuse in (
                (value("global"), test_set),
                (_early, test_set),
                (_skewed, resplit(0.1)),
            ):
                other = label != "FedAvg" and min(len(some), len(base)) > 2
                told.append(difference(against(some, base, of, reuse)) if other else "–")
            rows.append([condition, label, *told, str(len(some))])
    head = ["clients", "method", "accuracy", "difference to FedAvg", "after five rounds"]
    return table([*head, "for skewed nodes", "seeds"], rows, left=2)


def _early(x: Line) -> float:
    """Accuracy where curves begin, after five rounds."""
    return float(x["curve"]["global"][0])


def _skewed(x: Line) -> float:
    """The mean over skewed clients, on their own rows; where nothing is marked, over all."""
    local = x["clients"]["local"]
    both = zip(local, x["clients"].get("marks", [""] * len(local)), strict=True)
    return mean(accuracy for accuracy, mark in both if mark != "alpha = 50")


def macro() -> str:
    """Recall and F1, means over classes: on the test set, and on clients' own rows over clients."""
    rows = []
    for condition in sorted({x["condition"] for x in runs("fedep-recall")}, reverse=True):
        base = runs("fedep-recall", condition=condition, label="FedAvg")
        for label in LABELS:
            some, told = runs("fedep-recall", condition=condition, label=label), []
            for metric in ("recall", "f1"):
                told.append(spread([value("global", metric)(x) for x in some]))
                for section, reuse in (("global", Reuse(fixed=10_000)), ("local", resplit(0.1))):
                    found = against(some, base, value(section, metric), reuse)
                    told.append("–" if label == "FedAvg" else difference(found))
            rows.append([condition, label, *told, str(len(some))])
    both = [[name, "difference to FedAvg", "on own rows"] for name in ("recall", "F1")]
    return table(["clients", "method", *both[0], *both[1], "seeds"], rows, left=2)


def topologies() -> str:
    """The same runs under a server that stays, one that rotates, and none."""
    places = ("star", "rotating", "complete")
    of = {
        (where, x["label"], x["condition"], x["seed"]): value("global")(x)
        for where in places
        for x in runs(f"fedep-{where}")
    }
    cells = {(c, s) for _, _, c, s in of}
    cells = {(c, s) for c, s in cells if all((w, n, c, s) in of for w in places for n in LABELS)}
    rows = []
    for label in LABELS:
        found = {w: [of[w, label, c, s] for c, s in sorted(cells)] for w in places}
        gaps = (
            abs(a - b) for w in places[1:] for a, b in zip(found["star"], found[w], strict=True)
        )
        told = [number(100 * mean(found[w])) for w in places]
        rows.append([label, *told, number(100 * max(gaps)), str(len(cells))])
    return table(["method", *places, "largest difference of a run", "runs each"], rows)
