"""Tables of docs/results/superfed.md: two classes a client, and wrong labels."""

from collections.abc import Callable

from unalike.compare.statistics.paired import paired
from unalike.compare.statistics.reuse import resplit
from writer.results import Line, against, difference, runs, spread, table, value

PRINTED = {  # Table 2.3: MNIST with 50, 100 and 500 clients, CIFAR-10 with 500
    "FedAvg": ("95.69", "89.78", "96.04", "47.90"),
    "FedProx": ("95.13", "93.25", "96.50", "48.60"),
    "SCAFFOLD": ("95.50", "90.58", "96.60", "40.27"),
    "LG-FedAvg": ("98.21", "97.52", "96.05", "78.52"),
    "FedPer": ("99.23", "99.14", "98.67", "82.35"),
    "FedRep": ("99.11", "99.04", "97.94", "80.66"),
    "APFL": ("99.40", "99.19", "98.98", "87.38"),
    "pFedMe": ("81.10", "82.48", "81.96", "88.30"),
    "Ditto": ("97.07", "97.13", "97.20", "84.45"),
    "SuPerFed-MM": ("99.45", "99.38", "99.24", "90.81"),
    "SuPerFed-LM": ("99.48", "99.31", "98.83", "89.63"),
}
FILES = ("superfed-mnist-50", "superfed-mnist-100", "superfed-mnist-500", "superfed-cifar-500")
ROWS = resplit(0.2, 0.1)
OWN = "SuPerFed-MM"
ALONG = (OWN, "SuPerFed-LM", "APFL")


def _lead(some: list[Line], ours: list[Line], section: str) -> str:
    """SuPerFed against a method, over the seeds that both have."""
    if len({x["seed"] for x in some} & {x["seed"] for x in ours}) < 2:
        return "–"
    return difference(against(ours, some, value(section), ROWS))


def two_classes(file: str) -> str:
    """Two classes a client: every method, and how far SuPerFed is ahead of it."""
    ours, column, rows = runs(file, label=OWN), FILES.index(file), []
    for label, printed in PRINTED.items():
        some = runs(file, label=label)
        if not some:
            continue
        told = [spread([value(s)(x) for x in some]) for s in ("local", "common", "oracle")]
        leads = [_lead(some, ours, s) if label != OWN else "–" for s in ("common", "oracle")]
        lead = [told[1], leads[0], told[2], leads[1]]
        rows.append([label, told[0], *lead, printed[column], str(len(some))])
    head = ["method", "fixed λ", "one λ for all, by validation", "SuPerFed-MM's lead"]
    head += ["*each client's best on test*", "SuPerFed-MM's lead", "in print", "seeds"]
    return table(head, rows)


def noise(file: str) -> str:
    """Calibration under wrong labels, against FedAvg."""
    printed = {  # Table 2.6, MNIST
        "FedAvg": ("0.17", "0.38", "0.29", "0.42"),
        "APFL": ("0.18", "0.42", "0.28", "0.40"),
        "SuPerFed-MM": ("0.16", "0.28", "0.27", "0.30"),
        "SuPerFed-LM": ("0.14", "0.35", "0.27", "0.32"),
    }
    rows = []
    for column, condition in enumerate(("pair 0.1", "pair 0.4", "symmetric 0.2", "symmetric 0.6")):
        base = runs(file, condition=condition, label="FedAvg")
        for label, theirs in printed.items():
            some = runs(file, condition=condition, label=label)
            if not some:
                continue
            row = [condition, label, spread([value("common")(x) for x in some], 1)]
            for ece in (value("local", "ece"), value("common", "ece")):
                row.append(spread([ece(x) for x in some], 3, 1.0))
                enough = label != "FedAvg" and min(len(some), len(base)) > 2
                row.append(difference(against(some, base, ece, ROWS), 3, 1.0) if enough else "–")
            rows.append([*row, theirs[column], str(len(some))])
    head = ["labels", "method", "accuracy", "ECE, fixed λ", "difference to FedAvg"]
    head += ["ECE, one λ by validation", "difference", "ECE in print", "seeds"]
    return table(head, rows, left=2)


def start() -> str:
    """When mixing begins."""
    printed = {  # Table 2.7, CIFAR-10
        "MM": ("89.87", "92.67", "92.69", "92.50", "91.29"),
        "LM": ("91.55", "92.41", "92.69", "92.60", "90.59"),
    }
    rows = []
    for kind, theirs in printed.items():
        base = runs("superfed-start", label=f"{kind} L 0.4")
        for part, paper in zip(("0", "0.2", "0.4", "0.6", "0.8"), theirs, strict=True):
            some = runs("superfed-start", label=f"{kind} L {part}")
            told = [spread([value(s)(x) for x in some]) for s in ("common", "oracle")]
            lead = difference(against(some, base, value("common"), ROWS)) if part != "0.4" else "–"
            rows.append([f"SuPerFed-{kind}", part, told[0], lead, told[1], paper, str(len(some))])
    some = runs("superfed-start", label="FedAvg")
    plain = spread([value("common")(x) for x in some])
    rows.append(["FedAvg", "–", plain, "–", plain, "–", str(len(some))])
    head = ["method", "L", "one λ for all, by validation", "difference to L = 0.4"]
    return table([*head, "*each client's best on test*", "in print", "seeds"], rows, left=1)


def pull_and_push() -> str:
    """The strengths mu and nu."""
    printed = {  # figure 2.3, CIFAR-10
        "MM": {"0 2": "83.8", "0.01 0": "84.6", "0.01 1": "81.2", "0.01 2": "84.8"},
        "LM": {"0 2": "81.8", "0.01 0": "82.2", "0.01 1": "84.9", "0.01 2": "88.1"},
    }
    printed["MM"] |= {"0.01 5": "84.3", "0.1 2": "82.2", "1 2": "65.4"}
    printed["LM"] |= {"0.01 5": "87.0", "0.1 2": "78.6", "1 2": "61.0"}
    rows = []
    for kind, cells in printed.items():
        base = runs("superfed-mu-nu", label=f"{kind} mu 0.01 nu 2")
        for cell, theirs in cells.items():
            mu, nu = cell.split()
            some = runs("superfed-mu-nu", label=f"{kind} mu {mu} nu {nu}")
            told = [spread([value(s)(x) for x in some]) for s in ("common", "oracle")]
            lead = (
                "–" if cell == "0.01 2" else difference(against(some, base, value("common"), ROWS))
            )
            rows.append(
                [f"SuPerFed-{kind}", mu, nu, told[0], lead, told[1], theirs, str(len(some))]
            )
    head = ["method", "μ", "ν", "one λ for all, by validation", "difference to 0.01 and 2"]
    return table([*head, "*each client's best on test*", "in print", "seeds"], rows)


def along(file: str) -> str:
    """Every point of the line, and what it loses to the middle of its own line."""
    rows, points = [], runs(file)[0]["line"]["at"]
    middle = points.index(0.5)
    for place, point in enumerate(points):
        row = [f"{point:g}"]
        for label in ALONG:
            some = runs(file, label=label)
            here, there = ([_at(i)(x) for x in some] for i in (place, middle))
            row.append(spread(here, 1))
            lost = difference(paired(here, there, reuse=ROWS), 1)
            row.append("–" if place == middle else lost)
        rows.append(row)
    head = [name for label in ALONG for name in (label, "difference to 0.5")]
    return table(["λ", *head], rows)


def ahead(file: str) -> str:
    """SuPerFed's lead over APFL at every point of the line."""
    base, rows = runs(file, label="APFL"), []
    for place, point in enumerate(base[0]["line"]["at"]):
        leads = [against(runs(file, label=n), base, _at(place), ROWS) for n in ALONG[:2]]
        rows.append([f"{point:g}", *(difference(lead, 1) for lead in leads)])
    return table(["λ", *ALONG[:2]], rows)


def _at(place: int) -> Callable[[Line], float]:
    """The accuracy at one of the points of the line."""
    return lambda x: float(x["line"]["accuracy"][place])


def new() -> str:
    """Clients that took no part: the shared model, and after steps of their own."""
    rows = []
    for condition in ("two digits a client", "Dirichlet 0.5"):
        base = runs("superfed-new", condition=condition, label="FedAvg")
        for label in ("FedAvg", "APFL", "SuPerFed-MM", "SuPerFed-LM"):
            some, row = runs("superfed-new", condition=condition, label=label), [condition, label]
            for place in range(4):
                row.append(spread([x["steps"]["accuracy"][place] for x in some], 1))
                if place in (0, 3):
                    of = _after(place)
                    lead = difference(against(some, base, of, resplit(0.2)), 1)
                    row.append("–" if label == "FedAvg" else lead)
            rows.append([*row, str(len(some))])
    head = ["clients", "method", "as they come", "difference to FedAvg", "1 step", "5", "25"]
    return table([*head, "difference", "seeds"], rows, left=2)


def _after(place: int) -> Callable[[Line], float]:
    """The accuracy after one of the numbers of steps."""
    return lambda x: float(x["steps"]["accuracy"][place])
