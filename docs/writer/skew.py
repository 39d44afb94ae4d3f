"""Tables of docs/results/skew.md: samplers, longer rounds, phases, made examples."""

from unalike.compare.statistics.paired import paired
from unalike.compare.statistics.reuse import Reuse, resplit
from writer.results import Line, against, difference, lines, runs, spread, table, value

ACCURACY = value("global")
TEST_SET = Reuse(fixed=10_000)  # which all seeds share


def both(some: list[Line], base: list[Line], reuse: Reuse = TEST_SET) -> list[str]:
    """Differences over seeds for these test rows, and for fresh ones."""
    if len({x["seed"] for x in some} & {x["seed"] for x in base}) < 3:
        return ["–", "–"]
    return [difference(against(some, base, ACCURACY, r)) for r in (Reuse(), reuse)]


def emd() -> str:
    """Samplers of equal EMD, the source's network."""
    rows = []
    for x in runs("emd"):
        name, _, how = x["condition"].partition(" ")
        rows.append(["0", "iid"] if name == "iid" else [name, how])
        rows[-1].append(spread([ACCURACY(x)]))
    return table(["EMD", "sampler", "accuracy"], sorted(rows), left=2)


def emd_dense() -> str:
    """Samplers of equal EMD over seeds, against iid data and against one priority label."""
    conditions = list(dict.fromkeys(x["condition"] for x in runs("emd-dense")))
    found = {c: runs("emd-dense", condition=c) for c in conditions}
    rows = []
    for condition, some in found.items():
        name, _, how = condition.partition(" ")
        first = next((c for c in conditions if c.startswith(f"{name} ll(1,")), condition)
        to_iid = ["–", "–"] if condition == "iid" else both(some, found["iid"])
        to_first = "–" if condition == first else both(some, found[first])[0]
        told = [spread([ACCURACY(x) for x in some]), *to_iid, to_first, str(len(some))]
        rows.append([*(("0", "iid") if condition == "iid" else (name, how)), *told])
    head = ["EMD", "sampler", "accuracy", "difference to iid", "for fresh rows"]
    return table([*head, "to one label, ll(1)", "seeds"], sorted(rows), left=2)


def epochs() -> str:
    """Longer and fewer rounds at equal work."""
    rows = []
    for file in ("epochs-cifar", "epochs"):
        for condition in sorted({x["condition"] for x in runs(file)}):
            base = runs(file, condition=condition, label="E 1")
            for e in (1, 2, 4, 8, 16, 32):
                some = runs(file, condition=condition, label=f"E {e}")
                if not some:
                    continue
                leads = both(some, base) if e > 1 else ["–", "–"]
                told = [spread([ACCURACY(x) for x in some]), *leads, str(len(some))]
                title = condition + (", CNN" if file == "epochs-cifar" else "")
                rows.append([title, str(e), str(64 // e), *told])
    head = ["data", "E", "rounds", "accuracy", "difference to E = 1", "for fresh rows", "seeds"]
    return table(head, rows, left=1)


def phase_shift() -> str:
    """Phases, and FedAvg with the bytes of four."""
    labels = ("FedAvg", "2 phases", "4 phases", "10 phases", "20 phases", "FedAvg as 4")
    files = {"phase-shift-cifar": (", CNN", TEST_SET), "phase-shift": (", CNN", TEST_SET)}
    files |= {"phase-shift-dense": ("", TEST_SET), "phase-shift-16": (", E = 16", TEST_SET)}
    files["phase-shift-digits"] = ("", resplit(0.2))
    rows = []
    for file, (network, reuse) in files.items():
        for condition in sorted({x["condition"] for x in runs(file)}):
            base = runs(file, condition=condition, label="FedAvg")
            for label in labels:
                some = runs(file, condition=condition, label=label)
                if not some:
                    continue
                leads = both(some, base, reuse) if label != "FedAvg" else ["–", "–"]
                ours, theirs = (x[0]["bytes_up"] + x[0]["bytes_down"] for x in (some, base))
                told = [f"{100 * ours / theirs:.0f} %", spread([ACCURACY(x) for x in some])]
                rows.append([condition + network, label, *told, *leads, str(len(some))])
    head = ["data", "method", "bytes", "accuracy", "difference to FedAvg", "for fresh rows"]
    return table([*head, "seeds"], rows, left=2)


def fedaug() -> str:
    """FedAug and phase-shift on CIFAR-10."""
    rows, printed = [], {"FedProx": "−1", "FedAug 0.8": "+10", "2P-FedAug 0.8": "+13"}
    for file, name in (("fedaug-cifar-full", "108"), ("fedaug-cifar", "27")):
        base = runs(file, label="FedAvg")
        for label in ("FedAvg", "FedProx", "FedAug 0.8", "2P", "2P-FedAug 0.8"):
            if some := runs(file, label=label):
                leads = both(some, base) if label != "FedAvg" else ["–", "–"]
                told = [spread([ACCURACY(x) for x in some]), *leads, printed.get(label, "–")]
                rows.append([name, label, *told, str(len(some))])
    head = ["epochs in all", "method", "accuracy", "difference to FedAvg", "for fresh rows"]
    return table([*head, "in print", "seeds"], rows, left=2)


def fedaug_combined() -> str:
    """FedAug, phase-shift and FedProx with a perceptron, and the best of them against each."""
    rows = []
    best = "2P-FedAug 0.8"
    for data in ("Fashion-MNIST", "MNIST"):
        found = {
            label: runs("fedaug-combined-dense", condition=data, label=label)
            for label in ("FedAvg", "FedProx", "FedAug 0.8", "2P", best)
        }
        for label, some in found.items():
            leads = both(some, found["FedAvg"]) if label != "FedAvg" else ["–", "–"]
            ahead = both(found[best], some)[0] if label != best else "–"
            told = [spread([ACCURACY(x) for x in some]), *leads, ahead, str(len(some))]
            rows.append([data, label, *told])
    head = ["data", "method", "accuracy", "difference to FedAvg", "for fresh rows"]
    return table([*head, "2P-FedAug's lead", "seeds"], rows, left=2)


def fedaug_dense() -> str:
    """FedAug over the EMD of the partition."""
    files = {
        "Fashion-MNIST": ("fedaug-dense-low", "fedaug-dense"),
        "MNIST": ("fedaug-dense-mnist",),
    }
    found: dict[tuple[str, str, str], list[Line]] = {}
    for data, names in files.items():
        for x in [x for name in names for x in runs(name)]:
            target = x["label"].removeprefix("FedAug ").replace("FedAvg", "–")
            found.setdefault((data, x["condition"], target), []).append(x)
    rows = []
    for data, emd, target in sorted(found, key=lambda key: (*key[:2], key[2] != "–", key[2])):
        some = found[data, emd, target]
        base = found[data, emd, "–"]
        leads = ["–", "–"] if target == "–" else both(some, base)
        told = [spread([ACCURACY(x) for x in some]), *leads, str(len(some))]
        rows.append([data, emd, target, *told])
    head = ["data", "EMD", "FedAug to", "accuracy", "difference to FedAvg", "for fresh rows"]
    return table([*head, "seeds"], rows, left=2)


def divergence() -> str:
    """How far FedAvg's weights are from those of pooled training."""
    found = lines("divergence.jsonl")
    of = {
        (emd, e): [x["divergence"] for x in found if (x["emd"], x["epochs"]) == (emd, e)]
        for emd in sorted({x["emd"] for x in found})
        for e in (1, 4, 16)
    }
    rows = []
    for emd in sorted({emd for emd, _ in of}):
        told = [spread(of[emd, e], 3, 1.0) for e in (1, 4, 16)]
        skewed = "–" if emd == 0 else difference(paired(of[emd, 16], of[0, 16]), 3, 1.0)
        longer = difference(paired(of[emd, 16], of[emd, 1]), 3, 1.0)
        rows.append([f"{emd:g}", *told, longer, skewed, str(len(of[emd, 1]))])
    head = ["EMD", "E = 1", "E = 4", "E = 16", "16 to 1 epochs", "to iid, E = 16", "seeds"]
    return table(head, rows)
