"""Tables of docs/results/fair-cross-silo.md: weights that follow the clients' losses."""

from unalike.compare.statistics.family import holm
from unalike.compare.statistics.reuse import resplit
from writer.results import Line, against, chance, difference, runs, spread, table, value


def whole(file: str, label: str) -> list[Line]:
    """The runs of those seeds that every method of a comparison has."""
    found: dict[int, int] = {}
    for x in runs(file):
        found[x["seed"]] = found.get(x["seed"], 0) + 1
    return [x for x in runs(file, label=label) if found[x["seed"]] == max(found.values())]


def fair(
    file: str,
    metric: str = "auroc",
    statistics: tuple[str, str] = ("weighted_mean", "min"),
    titles: tuple[str, str] = ("AUROC %", "worst client"),
    baseline: str = "FedAvg",
) -> str:
    """Fair weights, with intervals for fresh rows: a mean, and who has least."""
    base, rows, raw = whole(file, baseline), list[list[str]](), list[float]()
    labels = list(dict.fromkeys(x["label"] for x in runs(file) if "+ AAggFF" not in x["label"]))
    first = [n for n in dict.fromkeys((baseline, "FedAvg", "uniform")) if n in labels]
    for label in [*first, *(n for n in labels if n not in first)]:
        some, row = whole(file, label), [label]
        for statistic in statistics:
            of = value("local", metric, statistic)
            row.append(spread([of(x) for x in some]))
            found = against(some, base, of, resplit(0.2))
            row.append("–" if label == baseline else difference(found))
            if statistic == statistics[0] and label != baseline:
                raw.append(found.p or 1.0)
        rows.append(row)
    for row, p in zip(rows[1:], holm(raw).p, strict=True):
        row.append(chance(float(p)))
    rows[0].append("–")
    head = ["method", titles[0], f"difference to {baseline}", titles[1], "difference"]
    return table([*head, "p of the mean"], rows)


def responses() -> str:
    """What turns losses into responses, against the source's choice."""
    return fair("berka-cdf", baseline="normal")


def writers() -> str:
    """The same with many clients, few of them in a round."""
    return fair("writers", "accuracy", ("mean", "worst10"), ("accuracy %", "worst tenth"))


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
