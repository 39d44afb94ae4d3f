"""Tables of docs/results/lg-fedavg.md that come from comparisons."""

from unalike.compare.statistics.reuse import Reuse, resplit
from writer.results import Line, against, best, difference, runs, spread, table, value


def _lead(some: list[Line], base: list[Line], section: str, rows: float, digits: int = 2) -> str:
    """The difference on rows that every seed splits anew, where both have three seeds."""
    if len({x["seed"] for x in some} & {x["seed"] for x in base}) < 3:
        return "–"
    return difference(against(some, base, value(section), resplit(rows)), digits)


def mnist() -> str:
    """The first table, MNIST, by the authors' protocol."""
    printed = {"FedAvg": (98.15, 98.15), "local only": (97.17, 84.01), "LG-FedAvg": (98.66, 97.81)}
    found = {label: runs("lg-mnist", label=label) for label in printed}
    rows = []
    for label, (own, new) in printed.items():
        some = found[label]
        told = [spread([of(x) for x in some]) for of in (value("local"), best("local"))]
        lead = "–" if label == "FedAvg" else _lead(some, found["FedAvg"], "local", 0.1429)
        alone = _lead(some, found["local only"], "local", 0.1429) if label == "LG-FedAvg" else "–"
        fresh = spread([value("global")(x) for x in some])
        there = against(some, found["FedAvg"], value("global"), Reuse(fixed=10_000))
        strangers = "–" if label == "FedAvg" else difference(there)
        seeds = str(len(some))
        rows.append([label, *told, f"{own}", lead, alone, fresh, f"{new}", strangers, seeds])
    head = ["method", "own test", "*best on test*", "authors", "to FedAvg", "to training alone"]
    return table([*head, "new test", "authors", "to FedAvg", "seeds"], rows)


def cifar() -> str:
    """What initialisation, augmentation and rows do on CIFAR-10."""
    rows = []
    for file in ("lg-cifar", "lg-cifar-more"):
        for condition in sorted({x["condition"] for x in runs(file)}, reverse=True):
            shared = runs(file, condition=condition, label="LG-FedAvg, body shared")
            alone = runs(file, condition=condition, label="local only")
            ends = [[x["curve"][s][-2] for x in shared] for s in ("local", "global")]
            told = [ends[0], *([of(x) for x in shared] for of in (value("local"), best("local")))]
            told += [[value("local")(x) for x in alone]]
            later = [ends[1], *([value("global")(x) for x in of] for of in (shared, alone))]
            lead = _lead(shared, alone, "local", 0.1 if "450" in condition else 0.3)
            seeds = str(len(shared)) + (f", alone {len(alone)}" if len(alone) < len(shared) else "")
            rows.append([condition, *map(spread, told), lead, *map(spread, later), seeds])
    paper = ["*in print*", "59.94", "", "89.66", "86.81", "", "59.94", "59.63", "54.83", ""]
    head = ["start, pictures, rows", "FedAvg", "LG-FedAvg", "*LG, best on test*", "alone"]
    head += ["LG to alone", "FedAvg, new", "LG, new", "alone, new", "seeds"]
    return table(head, [*rows, paper])


def late() -> str:
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
            where = f"{data}, participation.others={share}"
            base = runs("lg-late", condition=where, label="FedAvg")
            for label in ("FedAvg", "FedProx", "LG-FedAvg"):
                some, row = runs("lg-late", condition=where, label=label), [data, share, label]
                both = zip(
                    ("settled", "late"), printed.get((data, share, label), ("–", "–")), strict=True
                )
                for section, theirs in both:
                    row.append(spread([value(section)(x) for x in some], 1))
                    lead = _lead(some, base, section, 0.1429, 1)
                    row += ["–" if label == "FedAvg" else lead, theirs]
                rows.append([*row, str(len(some))])
    head = ["data", "C", "method", "the others", "to FedAvg", "authors"]
    return table([*head, "the newcomer", "to FedAvg", "authors", "seeds"], rows, left=3)


ADVERSARIAL = {
    "FedAvg": "FedAvg",
    "LG-FedAvg-Adv": "LG-FedAvg without",
    "LG-FedAvg+Adv": "LG-FedAvg with, λ = 10",
    "LG-FedAvg+Adv 30": "LG-FedAvg with, λ = 30",
}


def fair() -> str:
    """Race and sex hidden from an adversary."""
    rows = []
    for condition in ("iid", "two shards"):
        for label in ADVERSARIAL:
            some = runs("lg-fair", condition=condition, label=label)
            told = [
                spread([value("local", m)(x) for x in some if m in x["last"]["local"]], 1)
                for m in ("accuracy", "auroc", "fooled", "adversary")
            ]
            rows.append([condition, ADVERSARIAL[label], *told, str(len(some))])
    head = ["data", "method", "accuracy", "AUROC", "its own adversary", "a fresh adversary"]
    return table([*head, "seeds"], rows, left=2)
