"""How often a comparison claims what is not so, and finds what is.

python benchmarks/false_alarms.py [PART ...] > docs/results/false-alarms.txt

Values of methods are drawn and judged by the very function that judges comparisons: 1,000
comparisons for each number, 2,000 for whole families, 4,000 for few methods and for skew, 400 where
rows are shared or two are best on five conditions or more, 250 for margins and intervals. A
comparison errs if it claims anything at all that is false: a win or a loss against the baseline on
any condition or over all of them, or a best method. The worlds:

independent   seeds share nothing; methods may vary alike or not, have tails, skew, coarse values
re-splits     one dataset, split anew under every seed, for rules that are fixed or trained
test set      one test set for all seeds
"""

import sys
from collections.abc import Callable

import numpy as np
from equal_worlds import (
    INDEPENDENT,
    SPLIT,
    Values,
    alike,
    fixed_rules,
    one_test_set,
    skewed_baseline,
    trained_rules,
    unlike,
)
from numpy.random import Generator
from numpy.typing import NDArray

from unalike.compare.statistics.claims import Claims, claims
from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.family import holm
from unalike.compare.statistics.known import ALPHA, Known
from unalike.compare.statistics.ranks import ranks
from unalike.compare.statistics.reuse import Reuse, resplit

TIMES, METHODS = 1_000, 9
AT_ONCE = 50  # comparisons, to bound memory


def times(conditions: int) -> int:
    """How many comparisons; those of many conditions take their time."""
    return TIMES if conditions <= 2 else 2 * TIMES // 5


def judged(x: Values, design: Design | None = None, baseline: int = 0, margin: float = 0.0):
    """The claims of many comparisons, some at once."""
    for i in range(0, len(x), AT_ONCE):
        yield claims(x[i : i + AT_ONCE], baseline, design=design, margin=margin)


def share(found: list[NDArray[np.bool_]]) -> float:
    return float(100 * np.concatenate(found).mean())


def anything(found: Claims) -> NDArray[np.bool_]:
    """Whether a comparison of methods that are all the same claims anything."""
    lines = np.isin(found.outcome, ["win", "loss"]).any((-1, -2))
    return np.asarray(lines | found.best.clear.any(-1))


def alarms(x: Values, design: Design | None = None) -> float:
    """The share of comparisons without any difference that claim one, in per cent."""
    return share([anything(found) for found in judged(x, design)])


def designs(conditions: int, reuse: Reuse) -> dict[str, Design]:
    """Student's test as it was, and the default, for what seeds share."""
    before = Design("t", (Reuse(),) * conditions)
    return {"t": before, "now": Design(reuse=(reuse,) * conditions)}


# Worlds with a difference


def differing(
    n: int, d: float, differ: int, spread: float = 0.0, shared: float = 0.0
) -> tuple[Values, Design]:
    """Methods that differ from the baseline by d standard deviations, and how to judge them.

    Args:
        n: Seeds.
        d: Of a single seed's difference, whose variance may in part be the rows' that all share.
        differ: How many of eight methods do.
        spread: How unlike the methods' standard deviations are, as in ``unlike``.
        shared: The rows' share of the variance.
    """
    rng, shape = np.random.default_rng(n), (TIMES, 1, METHODS)
    sigma = np.exp(spread * rng.standard_normal((*shape, 1)))
    common = np.sqrt(shared) * rng.standard_normal((*shape, 1))
    x = sigma * (np.sqrt(1 - shared) * rng.standard_normal((*shape, n)) + common)
    both = np.sqrt(sigma**2 + sigma[:, :, :1] ** 2)
    x[:, :, 1 : 1 + differ] += d * both[:, :, 1 : 1 + differ]
    return x, Design(reuse=(Reuse(shared / (1 - shared)),))


def power(n: int, d: float, differ: int = 8, spread: float = 0.0, shared: float = 0.0) -> float:
    """How often a difference is found, in per cent; see ``differing``."""
    what = "win" if d > 0 else "loss"
    found = judged(*differing(n, d, differ, spread, shared))
    return share([f.outcome[..., 1 : 1 + differ] == what for f in found])


def students_power(n: int, d: float, differ: int = 8, spread: float = 0.0) -> float:
    """The same by Student's test with Holm's correction, for seeds that share nothing."""
    x, _ = differing(n, d, differ, spread)
    found = (f.p.reshape(len(f.p), -1) for f in judged(x, Design("t")))
    return share([holm(p).p[:, 1 : 1 + differ] < ALPHA for p in found])


# Tables


def table(head: str, columns: list[str], rows: dict[str, list[str]]) -> None:
    print(f"| {head} | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


def independent(rng: Generator) -> None:
    sizes = [(1, 5), (1, 20), (2, 5), (5, 5), (9, 5), (9, 20)]
    rows = {
        name: [f"{alarms(draw(rng, TIMES, c, METHODS, n)):.1f}" for c, n in sizes]
        for name, draw in INDEPENDENT.items()
    }
    table("eight methods and a baseline, all equal", [f"{c} x {n}" for c, n in sizes], rows)


def family(rng: Generator) -> None:
    """One to nine conditions: the whole family of claims."""
    worlds = {"all vary alike": alike, "deviations unlike by a factor of 1.8": unlike(0.6)}
    rows = {
        f"{n} seeds, {name}": [
            f"{alarms(draw(rng, 2 * TIMES, c, METHODS, n)):.1f}" for c in range(1, 10)
        ]
        for name, draw in worlds.items()
        for n in (5, 20)
    }
    table("eight methods and a baseline, conditions", [str(c) for c in range(1, 10)], rows)


def few_methods(rng: Generator) -> None:
    rows = {
        name: [
            f"{alarms(draw(rng, 4 * TIMES, 1, k, n)):.1f}" for k in (2, 3, 5) for n in (3, 5, 10)
        ]
        for name, draw in {**INDEPENDENT, "skewed baseline (2)": skewed_baseline}.items()
    }
    heads = [f"{k - 1} x {n}" for k in (2, 3, 5) for n in (3, 5, 10)]
    table("methods x seeds, one condition", heads, rows)


def shared_rows(rng: Generator) -> None:
    worlds = {
        "fixed rules, 621 rows split anew": (fixed_rules, resplit(*SPLIT)),
        "trained rules, 400 rows split anew": (trained_rules, resplit(*SPLIT)),
        "one test set of 1,000 rows": (one_test_set, Reuse(fixed=1000)),
    }
    rows: dict[str, list[str]] = {}
    sizes = [(c, k, n) for c, k in ((1, 2), (1, METHODS), (9, METHODS)) for n in (5, 20)]
    for name, (draw, reuse) in worlds.items():
        rows[name] = []
        for c, k, n in sizes:
            x = draw(rng, times(c), c, k, n)
            found = [alarms(x, design) for design in designs(c, reuse).values()]
            rows[name].append(" / ".join(f"{f:.1f}" for f in found))
    heads = [f"{k - 1} x {c} x {n}" for c, k, n in sizes]
    table("methods x conditions x seeds: Student's / ours", heads, rows)


def two_best(rng: Generator) -> None:
    """Two methods are equal and others far behind: the hardest case for a best one."""
    sizes = [(c, n) for c in (1, 2, 5, 9) for n in (5, 20)]
    rows: dict[str, list[str]] = {"two of nine are equally good": [], "so are two far behind": []}
    for c, n in sizes:
        x = rng.standard_normal((times(c), c, METHODS, n))
        x[:, :, 2:] -= 50
        wrong = [(f.outcome[..., 1] != "open").any(-1) | f.best.clear.any(-1) for f in judged(x)]
        rows["two of nine are equally good"].append(f"{share(wrong):.1f}")
        x[:, :, 2:4] += 90  # ahead of the baseline and of its equal
        wrong = [(f.outcome[..., 1] != "open").any(-1) | f.best.clear.any(-1) for f in judged(x)]
        rows["so are two far behind"].append(f"{share(wrong):.1f}")
    table("conditions x seeds", [f"{c} x {n}" for c, n in sizes], rows)


def skew(rng: Generator) -> None:
    """What the tests make of a skewed baseline, and what each finds between two methods."""
    sizes = (5, 10, 20)
    rows: dict[str, list[str]] = {}
    for test in ("moderated", "hall", "wilcoxon"):
        design, cells = Design(test), []
        for k in (2, METHODS):
            for n in sizes:
                cells.append(f"{alarms(skewed_baseline(rng, 4 * TIMES, 1, k, n), design):.1f}")
        for n in sizes:
            x = rng.standard_normal((4 * TIMES, 1, 2, n))
            x[:, :, 1] += 2 * np.sqrt(2)
            found = [f.outcome[..., 1] == "win" for f in judged(x, design)]
            cells.append(f"{share(found):.0f}")
        rows[test] = cells
    heads = [f"{k - 1} x {n}" for k in (2, METHODS) for n in sizes]
    table("errs, methods x seeds; finds 2 sd", heads + [f"finds, {n}" for n in sizes], rows)


def found_best() -> None:
    """How often the best of nine is called so, for these rows and for fresh ones."""
    cells: dict[str, list[str]] = {}
    for d in (1, 2, 3):
        row = cells.setdefault(f"{d} standard deviation{'s' * (d > 1)} ahead of all", [])
        for n in (3, 5, 10, 20):
            said = []
            for shared in (0.0, 2 / 9):
                f = judged(*differing(n, d, 1, shared=shared))
                said.append(
                    share([(b := c.best).clear[..., 0] & (b.leader[..., 0] == 1) for c in f])
                )
            row.append(" / ".join(f"{s:.0f}" for s in said))
    table("the best of nine, by", [f"{n} seeds" for n in (3, 5, 10, 20)], cells)


def powers() -> None:
    sizes = (3, 5, 10, 20)
    worlds = {
        f"{d} standard deviation{'s' * (d > 1)}, {words}": (sign * d, differ, 0.0)
        for d in (1, 2, 3)
        for sign, differ, words in (
            (-1, 1, "one of eight is worse"),
            (1, 1, "one is better"),
            (1, 8, "all eight are better"),
        )
    }
    worlds |= {
        f"2, one is worse, deviations unlike by a factor of {factor}": (-2, 1, spread)
        for spread, factor in ((0.3, 1.3), (0.6, 1.8), (1.0, 2.7))
    }
    rows = {
        name: [
            f"{students_power(n, *world):.0f} / {power(n, *world):.0f} / "
            f"{power(n, *world, shared=2 / 9):.0f}"
            for n in sizes
        ]
        for name, world in worlds.items()
    }
    table("a difference of", [f"{n} seeds" for n in sizes], rows)


def equals(rng: Generator) -> None:
    """How often methods are called equal within a margin, by how far they are apart."""
    rows = {}
    for apart in (0.0, 0.5, 1.0):
        cells = []
        for n in (5, 10, 20):
            for margin in (1.0, 2.0, 4.0):
                x = rng.standard_normal((TIMES // 4, 1, METHODS, n)) / np.sqrt(2)
                x[:, :, 1:] += apart * margin
                found = [f.outcome[..., 1:] == "equal" for f in judged(x, margin=margin)]
                wrong = share([f.any((-1, -2)) for f in found])
                cells.append(f"{wrong if apart == 1 else share(found):.0f}")
        rows[f"{apart:.1f} margins"] = cells
    heads = [f"{n} seeds, {m} sd" for n in (5, 10, 20) for m in (1, 2, 4)]
    table("all eight are apart from the baseline by", heads, rows)


def coverage(rng: Generator) -> None:
    """How often corrected intervals hold the true differences: each, and all at once."""
    rows = {}
    for d, words in ((0.0, "no differences"), (2.0, "all differ by 2 standard deviations")):
        cells = []
        for n in (5, 20):
            x = rng.standard_normal((TIMES // 4, 1, METHODS, n)) / np.sqrt(2)
            x[:, :, 1:] += d
            each, every = [], []
            for f in judged(x):
                low, high = f.corrected_interval()
                held = ((low <= d) & (d <= high))[..., 1:]
                each.append(held)
                every.append(held.all((-1, -2)))
            cells.append(f"{share(each):.0f} / {share(every):.0f}")
        rows[words] = cells
    table("each / all eight", ["5 seeds", "20 seeds"], rows)


def detectable() -> None:
    """The least difference that 80 of 100 comparisons find, as it is printed, and how many do."""
    cells = []
    for n in (3, 5, 10, 20):
        one = Known(*(np.array(a) for a in (0.0, [1.0], [n**-0.5], [n - 1.0], 0.0)))
        d = float(one.detectable(ALPHA / 8))
        rng = np.random.default_rng(n)
        x = rng.standard_normal((TIMES, 1, METHODS, n)) / np.sqrt(2)
        printed = np.concatenate([f.detectable()[..., 1:].ravel() for f in judged(x)])
        typical = float(np.median(printed))
        x[:, :, 1] -= typical
        found = share([f.outcome[..., 1] == "loss" for f in judged(x)])
        cells.append(f"{d:.1f} / {typical:.1f} (found in {found:.0f} %)")
    table("Student's / ours", [f"{n} seeds" for n in (3, 5, 10, 20)], {"of eight methods": cells})


def nemenyi(rng: Generator) -> None:
    """How often mean ranks of equal methods are called apart."""
    cells = []
    for c in (5, 9, 20):
        found = [ranks(x) for x in rng.standard_normal((TIMES, c, METHODS))]
        apart = [np.ptp(f.mean) >= f.apart for f in found]
        cells.append(
            f"{100 * np.mean(apart):.1f} / {100 * np.mean([f.p < ALPHA for f in found]):.1f}"
        )
    heads = [f"{c} conditions" for c in (5, 9, 20)]
    table("any two apart / Friedman", heads, {"nine equal methods": cells})


PARTS: dict[str, Callable[[Generator], None]] = {
    f.__name__: f
    for f in (
        *(family, independent, few_methods, shared_rows, two_best, skew),
        *(equals, coverage, nemenyi),
    )
}
PARTS |= {
    "powers": lambda _: powers(),
    "found_best": lambda _: found_best(),
    "detectable": lambda _: detectable(),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        print(f"## {name}\n")
        PARTS[name](np.random.default_rng(0))
