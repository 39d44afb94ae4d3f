"""Tables of docs/results whose runs began with Glorot's weights, from their own records."""

from functools import partial
from statistics import mean

from unalike.compare.statistics.paired import Paired, paired
from writer.results import Line, chance, difference, lines, spread, table, together

METHODS = {"fedavg": "FedAvg", "scaffold": "SCAFFOLD"}
METHODS |= {"fedep": "FedEP, floor", "fedep-listing": "FedEP, listing"}
DATA = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
SPLITS, ALPHAS = ("2:8", "5:5", "8:2"), (0.5, 1.0, 5.0)


def _mixed(data: str, method: str, **more: object) -> list[Line]:
    found = [x for x in lines("fedep-mixed.jsonl") if (x["data"], x["method"]) == (data, method)]
    return [x for x in found if all(x[k] == v for k, v in more.items())]


def fedep_mixed() -> str:
    """Accuracy on the test set."""
    rows = []
    for data, title in DATA.items():
        for split in SPLITS:
            for alpha in ALPHAS:
                told = [
                    spread([x["last"]["global"]["accuracy"] for x in some])
                    for m in METHODS
                    for some in [_mixed(data, m, split=split, alpha=alpha)]
                ]
                first = title if (split, alpha) == (SPLITS[0], ALPHAS[0]) else ""
                rows.append([first, split, f"{alpha:g}", *told])
    return table(["", "iid : skewed", "α", *METHODS.values()], rows, left=7)


def fedep_mixed_differences() -> str:
    """A seed's value is its mean over scenarios."""
    rows = []
    for data, title in DATA.items():
        for method, name in list(METHODS.items())[1:]:
            row = [f"{title}, {name.replace(',', '')}"]
            for section in ("global", "local"):
                ours, theirs = (
                    [
                        mean(x["last"][section]["accuracy"] for x in _mixed(data, m, seed=seed))
                        for seed in range(3)
                    ]
                    for m in (method, "fedavg")
                )
                row.append(difference(paired(ours, theirs)))
            rows.append(row)
    return table(["", "test set", "clients' own test rows"], rows, left=3)


def fedep_mixed_skewed() -> str:
    """What the skewed clients gain or lose, on their own rows."""
    rows = []
    for data, title in DATA.items():
        row = [title]
        for split in SPLITS:
            few = int(split[0])  # the first ones are nearly iid
            ours, theirs = (
                [
                    mean(mean(x["clients"][few:]) for x in _mixed(data, m, split=split, seed=seed))
                    for seed in range(3)
                ]
                for m in ("fedep", "fedavg")
            )
            row.append(difference(paired(ours, theirs)))
        rows.append(row)
    return table(["", *SPLITS], rows)


def _apart(ours: list[float], theirs: list[float], alpha: float) -> Paired:
    return paired(ours, theirs, alpha=alpha)


def lg_fedavg(data: str) -> str:
    """Rounds selected on validation rows."""
    printed = {
        "mnist": {"FedAvg": "98.15 98.15", "local only": "97.17 84.01", "LG-FedAvg": "98.66 97.81"},
        "cifar10": {
            "FedAvg": "59.94 59.94",
            "local only": "86.81 54.83",
            "LG-FedAvg, body shared": "89.66 59.63",
        },
    }[data]
    found: dict[str, list[Line]] = {}
    for x in lines("lg-fedavg.csv"):
        if x["data"] == data:
            found.setdefault(x["label"], []).append(x)

    def of(label: str, column: str) -> list[float]:
        return [float(x[column]) for x in found[label]]

    own, new, worst = "local_accuracy_mean", "global_accuracy_mean", "local_accuracy_worst10"
    base, rows = of("FedAvg", own), list[list[str]]()
    pairs = together({n: partial(_apart, of(n, own), base) for n in found if n != "FedAvg"})
    digits = 2 if data == "mnist" else 1
    for label in found:
        theirs = printed.get(label, "– –").split()
        row = [label, spread(of(label, own)), theirs[0], spread(of(label, new)), theirs[1]]
        row.append(f"{100 * mean(of(label, worst)):.2f}")
        row += ["–", "–"]
        if label in pairs:
            apart, p = pairs[label]
            row[-2:] = [difference(apart, digits), chance(p)]
        sent = mean(of(label, "bytes")) / 1e9
        rows.append([*row, f"{sent:.1f} GB" if sent else "0"])
    head = ["method", "own test", "authors", "new test", "authors", "worst tenth"]
    return table([*head, "difference to FedAvg", "p", "sent"], rows)
