"""Tables of docs/results/speed.md, from the records of the benchmarks."""

from typing import Any

from writer.results import lines, number, table

WORK = {
    "dense-10": "dense 784-200-200-10, 10 clients × 60 steps of 10",
    "dense-100": "the same, 100 clients × 6 steps",
    "cnn-10": "McMahan's CNN, 10 clients × 4 steps of 50",
    "lstm-10": "LSTM of 128 units, 10 clients × 4 steps of 10",
    "dense-1000": "dense, 1,000 clients × 2 steps",
    "ring-1000": "the same on a ring of 1,000 servers",
    "stateful-100": "dense, 100 clients × 60 steps",
    "tiny-100": "a small perceptron, 100 clients",
    "regular-1000": "dense, 1,000 servers with 8 random neighbours each",
    "wide-10": "dense 784-1200-1000-10, 2.2 million weights, 10 clients × 6 steps",
    "logistic-10": "logistic regression, 10 clients",
    "normed-10": "a perceptron with batch normalisation, 10 clients",
}
GPU = {
    "twonn 100x60x10": "dense 784-200-200-10, 100 clients × 60 steps × 10",
    "twonn 100x60x10 skewed": "the same, sizes from 0.2 to 1.8 times the mean",
    "cnn 100x12x50": "McMahan's CNN, 100 × 12 × 50",
    "pfl cifar 50x5x10": "pfl-research's CIFAR-10 round, 50 × 5 × 10",
    "cifar cnn 100x20x16": "six convolutions with batch normalisation, 100 × 20 × 16",
}
PEERS_WORK = ("W1", "W2", "W3", "W4")
METHODS = {"fedavg": "FedAvg", "scaffold": "SCAFFOLD", "fedprox": "FedProx"}
METHODS |= {"superfed_mm": "SuPerFed"}


def cpu() -> str:
    """Seconds of a bare loop, and how many times as fast each engine is."""
    rows = []
    for line in _rounds("equal", "fedavg"):
        sides = ("fast", "scripted", "traced", "sequential")
        ratios = (line.get(f"bare_over_{side}") for side in sides)
        told = ("—" if r is None else number(r) for r in ratios)
        rows.append([WORK[line["work"]], number(line["bare_s"], 3), *told])
    head = ["work", "bare loop, seconds", "as `auto` computes", "without a C++ compiler"]
    return table([*head, "one by one, traced", "untraced"], rows)


def sizes() -> str:
    """The same where clients have unequal numbers of examples."""
    rows = [
        [
            WORK[x["work"]],
            number(x["bare_s"], 3),
            number(x["fast_s"], 3),
            number(x["bare_over_fast"]),
        ]
        for x in _rounds("dirichlet", "fedavg")
    ]
    return table(["work", "bare loop, seconds", "`auto`, seconds", "times as fast"], rows)


def stateful() -> str:
    """A method whose clients keep models of their own."""
    (line,) = _rounds("equal", "superfed_mm")
    names = {"fast": "as `auto` computes", "traced": "one by one, traced"}
    names |= {"sequential": "one by one, untraced"}
    slowest = line["sequential_s"]
    rows = [
        [name, number(line[f"{side}_s"], 2), number(slowest / line[f"{side}_s"])]
        for side, name in names.items()
    ]
    return table(["", "seconds a round", "times as fast as untraced"], rows)


def stateful_gpu() -> str:
    """The same on a GPU, where one client after the other takes half a minute."""
    found = lines("speed-gpu-stateful.jsonl")
    slowest = max(x["ms"] for x in found)
    rows = []
    for x in found:
        how = "all together, compiled" if x.get("compiled") else "all together"
        name = "one by one" if x.get("one_by_one") else how
        rows.append([name, f"{x['ms']:,.1f}", f"{slowest / x['ms']:,.0f}"])
    return table(["", "milliseconds a round", "times as fast as one by one"], rows)


def _rounds(sizes: str, method: str) -> list[dict[str, Any]]:
    """Records of ``benchmarks/engines.py``."""
    found = lines("speed-cpu.jsonl")
    return [x for x in found if (x["sizes"], x["method"]) == (sizes, method)]


def peers() -> str:
    """Times the bare loop, each peer in the mode that was fastest; start-up and memory of W1."""
    best = dict[tuple[str, str, str], dict[str, Any]]()
    for x in lines("speed-peers.jsonl"):
        at = x["peer"], x["work"], x["sizes"]
        if at not in best or x["round_s"] < best[at]["round_s"]:
            best[at] = x
    names = dict.fromkeys(peer for peer, _, _ in best)
    kinds = [(work, sizes) for work in PEERS_WORK for sizes in ("equal", "dirichlet")]
    rows = []
    for name in names:
        found = [best.get((name, *kind)) for kind in kinds]
        ratios = ["—" if x is None else number(x["times_bare"]) for x in found]
        one = best[name, "W1", "equal"]
        first = number(one["ready_s"] + one["first_s"], 1) if "first_s" in one else "—"
        rows.append([name, *ratios, number(one["ready_s"], 1), first, str(one["mb"] or "—")])
    seconds = [best.get(("bare", *kind)) for kind in kinds]
    told = ["—" if x is None else number(x["round_s"], 3) for x in seconds]
    rows.append(["*seconds of the bare loop*", *told, "", "", ""])
    head = [f"{work}, {'equal' if sizes == 'equal' else 'Dirichlet'}" for work, sizes in kinds]
    return table(["", *head, "ready after, s", "first round after, s", "MiB"], rows)


ROUNDS = ("50", "500", "1000", "1500")


def gpu() -> str:
    """Milliseconds a round, operation by operation and compiled."""
    found = {
        (x["work"], x["method"], x["precision"], x["compiled"]): x["ms"]
        for x in lines("speed-gpu.jsonl")
    }

    def cell(work: str, method: str, precision: str) -> str:
        plain, merged = (found.get((work, method, precision, c)) for c in (False, True))
        told = "—" if plain is None else number(plain, 1)
        return told if merged is None else f"{told}, compiled {number(merged, 1)}"

    rows = [
        [title, *(cell(work, m, "tf32") for m in METHODS), cell(work, "fedavg", "bf16")]
        for work, title in GPU.items()
    ]
    return table(["work", *(f"{m}, TF32" for m in METHODS.values()), "FedAvg, bf16"], rows)


def pfl() -> str:
    """pfl-research's own benchmark, by it and by us."""
    rows = []
    for x in lines("speed-pfl.jsonl"):
        where = {"cuda": "one NVIDIA H200", "cpu": "a busy core"}[x["device"]]
        took = number(x["round_ms"], 1 if x["round_ms"] < 100 else 0)
        told = [number(100 * x["accuracy"][t], 1) if t in x["accuracy"] else "–" for t in ROUNDS]
        took = took if x["device"] == "cuda" else "–"
        rows.append([x["side"], where, f"{x['rounds']:,}", took, *told])
    head = [f"accuracy after {int(t):,}" for t in ROUNDS]
    return table(["", "on", "rounds", "a round, ms", *head], rows)


def population() -> str:
    """What registered clients cost."""
    rows = [
        [
            f"{x['clients']:,}",
            f"{x['cohort']:,}",
            METHODS[x["method"]] + (", states on disk" if x["states"] == "disk" else ""),
            number(x["start_s"], 1),
            number(1000 * x["round_s"], 0),
            number(x["times_fewest"]) if "times_fewest" in x else "—",
            str(x["beyond_data_mb"]),
            str(x["folder_mb"]),
        ]
        for x in lines("speed-population.jsonl")
    ]
    head = [
        "clients",
        "a round",
        "method",
        "to the first round, s",
        "a round, ms",
        "times the fewest clients'",
        "MiB beyond the data",
        "folder, MiB",
    ]
    return table(head, rows)
