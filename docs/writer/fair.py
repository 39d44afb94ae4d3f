"""Tables of docs/results/fair-cross-silo.md: weights that follow the clients' losses."""

from functools import partial

from unalike.compare.statistics.paired import Paired, paired
from unalike.compare.statistics.reuse import resplit
from unalike.parts.mixing.regret import bound_d
from writer.results import (
    Line,
    against,
    chance,
    difference,
    lines,
    number,
    runs,
    spread,
    table,
    together,
    value,
)


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
    """Fair weights, with intervals for fresh rows: a mean, and who has least.

    The differences of a column are one family, in p and in intervals.
    """
    base = whole(file, baseline)
    labels = list(dict.fromkeys(x["label"] for x in runs(file) if "+ AAggFF" not in x["label"]))
    first = [n for n in dict.fromkeys((baseline, "FedAvg", "uniform")) if n in labels]
    order = [*first, *(n for n in labels if n not in first)]
    rows = [[label] for label in order]
    for statistic in statistics:
        of = value("local", metric, statistic)
        found = together(
            {n: partial(against, whole(file, n), base, of, resplit(0.2)) for n in order[1:]}
        )
        for row in rows:
            row.append(spread([of(x) for x in whole(file, row[0])]))
            row += ["–", "–"] if row[0] == baseline else _claim(*found[row[0]])
    head = ["method"]
    for title in titles:
        head += [title, f"difference to {baseline}", "p"]
    return table(head, rows)


def _claim(found: Paired, p: float, scale: float = 100.0) -> list[str]:
    return [difference(found, scale=scale), chance(p)]


def gini() -> str:
    """How unequal clients are, times 100; the differences within a dataset are one family."""
    rows = []
    for title, file, metric in (
        ("Berka", "berka", "auroc"),
        ("Heart", "heart", "auroc"),
        ("MNIST's writers", "writers", "accuracy"),
    ):
        of, labels = value("local", metric, "gini"), dict.fromkeys(x["label"] for x in runs(file))
        plus = [f"{name} + AAggFF" for name in labels if f"{name} + AAggFF" in labels]
        some = plus or sorted(labels.keys() - {"FedAvg"}, key=lambda n: (n != "uniform", n))
        both = {
            n: (whole(file, n), whole(file, n.partition(" +")[0] if plus else "FedAvg"))
            for n in some
        }
        pairs = {n: partial(against, *pair, of, resplit(0.2)) for n, pair in both.items()}
        for name, found in together(pairs).items():
            told = [spread([of(x) for x in group]) for group in both[name]]
            rows.append([title, name, both[name][1][0]["label"], *told, *_claim(*found)])
    head = ["clients", "method", "compared with", "Gini index × 100", "its Gini index × 100"]
    return table([*head, "difference", "p"], rows, left=3)


def responses() -> str:
    """What turns losses into responses, against the source's choice."""
    return fair("berka-cdf", baseline="normal")


def objective() -> str:
    """Losses of the received models, weighed and added up over rounds, by distribution function.

    By the weights that were decided before, and by the same for all regions.
    """
    labels = [n for n in dict.fromkeys(x["label"] for x in runs("berka-cdf")) if n != "FedAvg"]
    order = ["normal", *(n for n in labels if n != "normal")]
    rows, base = [[label] for label in order], whole("berka-cdf", "normal")
    for name in ("decided", "mean"):
        of = partial(_summed, name)
        found = together(
            {n: partial(against, whole("berka-cdf", n), base, of, resplit(0.2)) for n in order[1:]}
        )
        for row in rows:
            row.append(spread([of(x) for x in whole("berka-cdf", row[0])], 2, 1.0))
            row += ["–", "–"] if row[0] == "normal" else _claim(*found[row[0]], scale=1.0)
    both = [[title, "difference to normal", "p"] for title in ("summed objective", "equal weights")]
    return table(["function", *both[0], *both[1]], rows)


def _summed(name: str, run: Line) -> float:
    return float(run["objective"][name])


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


def sampled_regret() -> str:
    """AAggFF-D's regret over samples of the clients, in bounds of corollary 3.1 with constant 2."""
    found = lines("sampled-regret.jsonl")
    sizes = list(dict.fromkeys((x["clients"], x["sampled"]) for x in found))
    rows = []
    for name in dict.fromkeys(x["responses"] for x in found):
        for rounds in found[0]["regret"]:
            row = [name, f"{int(rounds):,}"]
            for K, m in sizes:
                bound = bound_d(int(rounds), K, m / K)
                wanted = (name, K, m)
                some = [x for x in found if (x["responses"], x["clients"], x["sampled"]) == wanted]
                row.append(_mean([x["regret"][rounds] / bound for x in some]))
            rows.append(row)
    return table(["responses", "rounds", *(f"{m} of {K}" for K, m in sizes)], rows)


def _mean(values: list[float]) -> str:
    """With its interval, where they differ."""
    found = paired(values, [0.0] * len(values))
    told = difference(found, scale=1.0).replace("+", "")
    return number(found.mean) if max(values) - min(values) < 5e-3 else told
