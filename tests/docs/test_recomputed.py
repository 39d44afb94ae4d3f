"""Verdicts of docs/results/index.md, computed again from the records with scipy alone."""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
INDEX = (RESULTS / "index.md").read_text(encoding="utf-8")
RUNS = [json.loads(x) for x in (RESULTS / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
OWN = 10_000  # rows of the test set that MNIST, Fashion-MNIST and CIFAR-10 have
TENTH, SEVENTH, FIFTH = 0.1 / 0.9, 0.1429 / 0.8571, 0.2 / 0.7  # tested rows for each that trains
QUARTER = 0.2 / 0.8

BERKA = ("berka", "authors' inputs")
LATE = "lg-late", "{}, participation.others={}"
NOISE = "superfed-noise-mnist"


def values(
    file: str, condition: str, label: str, place: str = "global accuracy"
) -> dict[int, float]:
    """By seed."""
    section, metric, *statistic = place.split()
    return {
        r["seed"]: r["last"][section][metric][(statistic or ["mean"])[0]]
        for r in RUNS
        if (r["file"], r.get("condition"), r.get("label")) == (file, condition, label)
    }


def interval(
    mine: dict[int, float], others: dict[int, float], ratio: float = 0.0, fixed: int = 0
) -> tuple[float, float, float]:
    """The mean difference and Student's interval, with Nadeau and Bengio's or the rows' part."""
    seeds = sorted(mine.keys() & others.keys())
    x, y = (np.array([v[s] for s in seeds]) for v in (mine, others))
    d = x - y
    spread = d.var(ddof=1) * (1 / len(d) + ratio)
    if fixed:
        spread += (x.mean() * (1 - x.mean()) + y.mean() * (1 - y.mean())) / fixed
    half = stats.t.isf(0.025, len(d) - 1) * math.sqrt(spread)
    return float(d.mean()), float(d.mean() - half), float(d.mean() + half)


def verdict(claim: str) -> str:
    (row,) = [x for x in INDEX.splitlines() if x.startswith(f"| {claim}")]
    return re.sub(r"\]\([^)]*\)", "]", row.partition(" | ")[2])


def written(found: tuple[float, float, float], digits: int, flip: bool) -> tuple[str, str]:
    """(the size of the mean, the interval) as the index writes them."""
    mean, low, high = (-found[0], -found[2], -found[1]) if flip else found
    ends = [f"{x:.{digits}f}" for x in (low, high)]
    if low < 0 or mean < 0:
        ends = [e.replace("-", "−") if e.startswith("-") else f"+{e}" for e in ends]
    return f"{abs(mean):.{digits}f}", f"[{ends[0]}, {ends[1]}]"


FASHION, DENSE, MNIST = "Fashion-MNIST", "phase-shift-dense", "MNIST"
CASES = [  # claim, (file, condition, label, place), the other, ratio, rows, digits, below
    (
        "LG-FedAvg is the best on devices' own test rows of MNIST",
        ("lg-mnist", "shards", "LG-FedAvg", "local accuracy"),
        ("lg-mnist", "shards", "FedAvg", "local accuracy"),
        (SEVENTH, 0, 1, False),
    ),
    (
        "LG-FedAvg is the best on devices' own test rows of MNIST",
        ("lg-mnist", "shards", "LG-FedAvg", "local accuracy"),
        ("lg-mnist", "shards", "local only", "local accuracy"),
        (SEVENTH, 0, 1, False),
    ),
    (
        "LG-FedAvg is as good as FedAvg for devices it does not know",
        ("lg-mnist", "shards", "LG-FedAvg"),
        ("lg-mnist", "shards", "FedAvg"),
        (0.0, OWN, 2, False),
    ),
    (
        "LG-FedAvg reaches 89.66 % on CIFAR-10",
        ("lg-cifar", "torch, crop and flip, 450 rows", "LG-FedAvg, body shared", "local accuracy"),
        ("lg-cifar", "torch, crop and flip, 450 rows", "local only", "local accuracy"),
        (TENTH, 0, 1, False),
    ),
    (
        "When a device with rotated pictures joins late",
        (LATE[0], LATE[1].format("iid", 0), "LG-FedAvg", "settled accuracy"),
        (LATE[0], LATE[1].format("iid", 0), "FedAvg", "settled accuracy"),
        (SEVENTH, 0, 0, False),
    ),
    *(
        (
            "LG-FedAvg serves the newcomer better than FedAvg",
            (LATE[0], LATE[1].format(data, others), "LG-FedAvg", "late accuracy"),
            (LATE[0], LATE[1].format(data, others), "FedAvg", "late accuracy"),
            (SEVENTH, 0, 1, False),
        )
        for data in ("iid", "two shards")
        for others in (0, 0.1)
    ),
    (
        "The EMD predicts accuracy whatever the sampler",
        ("emd-dense", "1.2 Dirichlet", "fedavg"),
        ("emd-dense", "1.2 ll(1, 0.67)", "fedavg"),
        (0.0, 0, 1, True),
    ),
    (
        "At equal EMD Dirichlet is the hardest sampler",
        ("emd-dense", "1.6 Dirichlet", "fedavg"),
        ("emd-dense", "1.6 ll_q(1)", "fedavg"),
        (0.0, 0, 1, True),
    ),
    (
        "On CIFAR-10 accuracy falls from an EMD of 1.0 on",
        ("emd-dense", "1.6 ll(2, 1)", "fedavg"),
        ("emd-dense", "1.6 ll(1, 0.89)", "fedavg"),
        (0.0, 0, 1, False),
    ),
    (
        "Phase-shift with n = 4 loses nothing",
        (DENSE, FASHION, "4 phases"),
        (DENSE, FASHION, "FedAvg"),
        (0.0, 0, 2, False),
    ),
    *(
        ("Twenty phases break down", (DENSE, data, label), (DENSE, data, "FedAvg"), how)
        for data, label, how in (
            (MNIST, "10 phases", (0.0, 0, 1, True)),
            (MNIST, "20 phases", (0.0, 0, 1, True)),
            (FASHION, "20 phases", (0.0, 0, 1, False)),
        )
    ),
    *(
        (
            "FedEP is ahead in recall and F1, too",
            ("fedep-recall", f"{data} 5:5", "FedEP", f"global {metric}"),
            ("fedep-recall", f"{data} 5:5", "FedAvg", f"global {metric}"),
            (0.0, OWN, 1, True),
        )
        for data in (MNIST, FASHION)
        for metric in ("recall", "f1")
    ),
    (
        "FedAug gains 10 points on CIFAR-10",
        ("fedaug-cifar-full", "CIFAR-10, EMD 1.4", "FedAug 0.8"),
        ("fedaug-cifar-full", "CIFAR-10, EMD 1.4", "FedAvg"),
        (0.0, OWN, 1, False),
    ),
    (
        "From an EMD of 0.4 to 1.4 FedAvg loses",
        ("fedaug-dense", "1.4", "FedAvg"),
        ("fedaug-dense-low", "0.4", "FedAvg"),
        (0.0, 0, 1, True),
    ),
    (
        "From an EMD of 0.4 to 1.4 FedAvg loses",
        ("fedaug-dense-mnist", "1.4", "FedAvg"),
        ("fedaug-dense-mnist", "0.8", "FedAvg"),
        (0.0, 0, 1, True),
    ),
    *(
        (
            "An augmented EMD of 0.8 is preferable",
            (file, emd, "FedAug 0.8"),
            (file, emd, "FedAug 0.4"),
            (0.0, 0, 1, False),
        )
        for file in ("fedaug-dense", "fedaug-dense-mnist")
        for emd in ("1.2", "1.4")
    ),
    (
        "SuPerFed is the best personal model on MNIST",
        ("superfed-mnist-500", "500 clients", "SuPerFed-MM", "oracle accuracy"),
        ("superfed-mnist-500", "500 clients", "APFL", "oracle accuracy"),
        (FIFTH, 0, 2, False),
    ),
    (
        "The same on CIFAR-10 (Table 2.3)",
        ("superfed-cifar-500", "500 clients", "SuPerFed-MM", "common accuracy"),
        ("superfed-cifar-500", "500 clients", "LG-FedAvg", "local accuracy"),
        (FIFTH, 0, 1, False),
    ),
    *(
        (
            "Its maximum calibration error under wrong labels",
            (NOISE, cell, "SuPerFed-MM", "local mce"),
            (NOISE, cell, "FedAvg", "local mce"),
            (FIFTH, 0, 3, lower),
        )
        for cell, lower in (("symmetric 0.2", True), ("pair 0.4", False), ("symmetric 0.6", False))
    ),
    *(
        (
            "Its accuracy under wrong labels is higher",
            (NOISE, cell, label, "oracle accuracy"),
            (NOISE, cell, "FedAvg", "local accuracy"),
            (FIFTH, 0, 1, True),
        )
        for cell, label in (
            ("symmetric 0.2", "SuPerFed-MM"),
            ("pair 0.1", "SuPerFed-LM"),
            ("symmetric 0.2", "SuPerFed-LM"),
        )
    ),
]


@pytest.mark.parametrize(("claim", "mine", "others", "how"), CASES, ids=lambda c: str(c)[:60])
def test_a_difference_in_the_index_is_that_of_the_records(claim, mine, others, how) -> None:
    ratio, fixed, digits, below = how
    found = interval(values(*mine), values(*others), ratio, fixed)
    scale = 1.0 if mine[-1].endswith("mce") else 100.0
    mean, ends = written(tuple(scale * x for x in found), digits, below)
    told = verdict(claim)
    assert mean in told
    assert ends in told


@pytest.mark.parametrize(
    ("data", "spreads", "p"), [(MNIST, (9.8, 0.6), 0), (FASHION, (4.8, 0.5), 4)]
)
def test_fedeps_spread_is_that_of_the_records(data, spreads, p) -> None:
    """Pitman and Morgan: sums and differences are correlated if variances differ."""
    fedep, fedavg = (
        np.array([*values("fedep-complete", f"{data} 8:2", label).values()])
        for label in ("FedEP", "FedAvg")
    )
    found = tuple(round(100 * x.std(ddof=1), 1) for x in (fedep, fedavg))
    assert found == pytest.approx(spreads)
    assert round(1000 * stats.pearsonr(fedep + fedavg, fedep - fedavg).pvalue) == p
    told = verdict("FedEP's results are the most stable")
    assert all(f"{spread}" in told for spread in spreads)


def test_messages_of_fedevg_are_counted() -> None:
    """Ten pictures for each class; parameters of ResNet-10 as tests of the models count them."""
    pictures = {"MNIST": 10 * 10 * 32**2, "CIFAR-10": 10 * 10 * 3 * 32**2}
    pictures |= {"DermaMNIST": 7 * 10 * 3 * 64**2, "OrganCMNIST": 11 * 10 * 64**2}
    models = {"MNIST": 4_979_914, "CIFAR-10": 4_981_066}
    models |= {"DermaMNIST": 5_128_519, "OrganCMNIST": 5_258_443}
    told = verdict("Messages are an order of magnitude smaller")
    assert f"{pictures['DermaMNIST']:,}" in told
    for name, numbers in pictures.items():
        times = round(models[name] / numbers)
        assert re.search(rf"\b{times} (times )?on {name}", told), name


def test_the_doubly_robust_estimate_is_off_by_what_the_index_says() -> None:
    """All samples of two among five clients, each as likely."""
    r, m = np.array([0.1, 0.4, 0.2, 0.9, 0.5]), 2
    K, share = len(r), m / len(r)
    estimates = []
    for seen in itertools.combinations(range(K), m):
        mean = r[list(seen)].mean()
        estimates.append([mean + (r[i] - mean) / share if i in seen else mean for i in range(K)])
    others = (r.sum() - r) / (K - 1)
    assert np.mean(estimates, 0) - r == pytest.approx((1 / m - 1 / K) * (others - r))
    assert abs(np.mean(estimates, 0) - r).max() > 0.1
    assert "(1/m − 1/K)" in verdict("The doubly robust estimate of unseen responses is unbiased")


def ginis(file: str, label: str, metric: str) -> np.ndarray:
    """By seed, times 100."""
    some = [x for x in RUNS if (x["file"], x.get("label")) == (file, label)]
    some.sort(key=lambda x: x["seed"])
    return np.array([100 * x["last"]["local"][metric]["gini"] for x in some])


@pytest.mark.parametrize(
    ("file", "label", "metric"),
    [("berka", "AAggFF-S", "auroc"), ("writers", "AAggFF-D", "accuracy")],
)
def test_the_gini_indices_are_those_of_the_records(file, label, metric) -> None:
    """Nadeau and Bengio's interval, of the level of Holm's corrected p."""
    base, found = ginis(file, "FedAvg", metric), {}
    for name in {x["label"] for x in RUNS if x["file"] == file} - {"FedAvg"}:
        d = ginis(file, name, metric) - base
        error = d.std(ddof=1) * math.sqrt(1 / len(d) + QUARTER)
        found[name] = d.mean(), error, 2 * stats.t.sf(abs(d.mean()) / error, len(d) - 1)
    (mean, error, p), smaller = found[label], sorted(x[2] for x in found.values())
    corrected = max(q * (len(found) - i) for i, q in enumerate(smaller) if q <= p)
    half = stats.t.isf(0.025 / (corrected / p), len(base) - 1) * error
    size, ends = written((mean, mean - half, mean + half), 2, flip=False)
    told = verdict("The Gini index of the clients is smaller")
    assert size in told
    assert ends in told


def test_the_points_of_the_line_are_those_of_the_records() -> None:
    """At the client's own end against APFL there, and against the middle of its own line."""
    at = {
        label: {
            x["seed"]: dict(zip(x["line"]["at"], x["line"]["accuracy"], strict=True))
            for x in RUNS
            if (x["file"], x.get("label")) == ("superfed-line-500", label)
        }
        for label in ("SuPerFed-MM", "APFL")
    }
    own, theirs = ({s: x[1.0] for s, x in at[label].items()} for label in at)
    middle = {s: x[0.5] for s, x in at["SuPerFed-MM"].items()}
    told = verdict("SuPerFed is as good at every λ")
    for other, below in ((theirs, False), (middle, True)):
        found = tuple(100 * x for x in interval(own, other, FIFTH))
        assert all(part in told for part in written(found, 1, below))


def test_the_sampled_regret_is_that_of_the_records() -> None:
    """In bounds of 2 C sqrt(T log K)."""
    lines = (RESULTS / "sampled-regret.jsonl").read_text(encoding="utf-8").splitlines()
    found: dict[tuple[str, int, int, int], dict[int, float]] = {}
    for x in map(json.loads, lines):
        K, m = x["clients"], x["sampled"]
        for T, regret in x["regret"].items():
            bound = 2 * m / K * math.sqrt(int(T) * math.log(K))
            found.setdefault((x["responses"], K, m, int(T)), {})[x["seed"]] = regret / bound
    told = verdict("The regret bound holds in expectation for samples")
    one = found["one", 100, 10, 3000]
    size, ends = written(interval(one, dict.fromkeys(one, 0.0)), 1, flip=False)
    assert f"{size} bounds {ends}" in told
    assert len(one) == 5
    full = np.mean([*found["two kinds", 10, 10, 30_000].values()])
    assert f"{full:.1f} bounds" in verdict("Regret is sublinear and below its bound")
    even = max(np.mean([*x.values()]) for key, x in found.items() if key[0] == "even")
    assert f"at most {even:.2f} of" in told
