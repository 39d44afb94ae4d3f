"""How often a comparison claims what is not so, and finds what is.

python benchmarks/false_alarms.py [PART ...] [--processes 16] > docs/results/false-alarms.txt

Values of methods are drawn and judged by the very function that judges comparisons: 1,000
comparisons for each number, 4,000 for whole families, few methods and skew, 400 where rows are
shared or two are best on five conditions or more, 500 for margins and intervals. A comparison errs
if it claims anything at all that is false: a win or a loss against the baseline on any condition or
over all of them, or a best method. Every line of a table draws anew from SEED, from which nothing
was drawn while the settings of the tests were chosen. All parts take half an hour on a core. The
worlds:

independent   seeds share nothing; methods may vary alike or not, have tails, skew, coarse values
re-splits     one dataset, split anew under every seed, for rules that are fixed or trained
test set      one test set for all seeds
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

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
from unalike.compare.statistics.differences import Design, Test
from unalike.compare.statistics.family import holm
from unalike.compare.statistics.known import ALPHA, Known
from unalike.compare.statistics.ranks import ranks
from unalike.compare.statistics.reuse import Reuse, resplit

TIMES, METHODS, SEED = 1_000, 9, 20_261_118
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
    rng, shape = np.random.default_rng((SEED, n)), (TIMES, 1, METHODS)
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


# Tables: the cells of a line are drawn and judged by one function of a generator

Line = Callable[[Generator], list[str]]


class Part(NamedTuple):
    """A table to be made."""

    head: str
    columns: list[str]
    lines: dict[str, Line]


def table(head: str, columns: list[str], rows: dict[str, list[str]]) -> None:
    print(f"| {head} | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(flush=True)


def _alarms(
    draw: Callable[..., Values], sizes: list[tuple[int, ...]], more: int, rng: Generator
) -> list[str]:
    return [f"{alarms(draw(rng, more * TIMES, *size)):.1f}" for size in sizes]


def independent() -> Part:
    sizes = [(1, 5), (1, 20), (2, 5), (5, 5), (9, 5), (9, 20)]
    shapes = [(c, METHODS, n) for c, n in sizes]
    lines = {name: partial(_alarms, draw, shapes, 1) for name, draw in INDEPENDENT.items()}
    return Part("eight methods and a baseline, all equal", [f"{c} x {n}" for c, n in sizes], lines)


def family() -> Part:
    """One to nine conditions: the whole family of claims."""
    worlds = {"all vary alike": alike, "deviations unlike by a factor of 1.8": unlike(0.6)}
    lines = {
        f"{n} seeds, {name}": partial(_alarms, draw, [(c, METHODS, n) for c in range(1, 10)], 4)
        for name, draw in worlds.items()
        for n in (5, 20)
    }
    return Part("eight methods and a baseline, conditions", [str(c) for c in range(1, 10)], lines)


def few_methods() -> Part:
    sizes = [(1, k, n) for k in (2, 3, 5) for n in (3, 5, 10)]
    worlds = {**INDEPENDENT, "skewed baseline (2)": skewed_baseline}
    lines = {name: partial(_alarms, draw, sizes, 4) for name, draw in worlds.items()}
    heads = [f"{k - 1} x {n}" for _, k, n in sizes]
    return Part("methods x seeds, one condition", heads, lines)


def shared_rows() -> Part:
    worlds = {
        "fixed rules, 621 rows split anew": (fixed_rules, resplit(*SPLIT)),
        "trained rules, 400 rows split anew": (trained_rules, resplit(*SPLIT)),
        "one test set of 1,000 rows": (one_test_set, Reuse(fixed=1000)),
    }
    sizes = [(c, k, n) for c, k in ((1, 2), (1, METHODS), (9, METHODS)) for n in (5, 20)]

    def line(draw: Callable[..., Values], reuse: Reuse, rng: Generator) -> list[str]:
        cells = []
        for c, k, n in sizes:
            x = draw(rng, times(c), c, k, n)
            found = [alarms(x, design) for design in designs(c, reuse).values()]
            cells.append(" / ".join(f"{f:.1f}" for f in found))
        return cells

    heads = [f"{k - 1} x {c} x {n}" for c, k, n in sizes]
    lines = {name: partial(line, *world) for name, world in worlds.items()}
    return Part("methods x conditions x seeds: Student's / ours", heads, lines)


def two_best() -> Part:
    """Two methods are equal and others far behind: the hardest case for a best one."""
    sizes = [(c, n) for c in (1, 2, 5, 9) for n in (5, 20)]

    def line(ahead: float, rng: Generator) -> list[str]:
        cells = []
        for c, n in sizes:
            x = rng.standard_normal((times(c), c, METHODS, n))
            x[:, :, 2:] -= 50
            x[:, :, 2:4] += ahead
            wrong = [
                (f.outcome[..., 1] != "open").any(-1) | f.best.clear.any(-1) for f in judged(x)
            ]
            cells.append(f"{share(wrong):.1f}")
        return cells

    lines = {
        "two of nine are equally good": partial(line, 0.0),
        "two others are as good as each other, and ahead of both": partial(line, 90.0),
    }
    return Part("conditions x seeds", [f"{c} x {n}" for c, n in sizes], lines)


def skew() -> Part:
    """What the tests make of a skewed baseline, and what each finds between two methods."""
    sizes = (5, 10, 20)

    def line(test: Test, rng: Generator) -> list[str]:
        design, cells = Design(test), []
        for k in (2, METHODS):
            for n in sizes:
                cells.append(f"{alarms(skewed_baseline(rng, 4 * TIMES, 1, k, n), design):.1f}")
        for n in sizes:
            x = rng.standard_normal((4 * TIMES, 1, 2, n))
            x[:, :, 1] += 2 * np.sqrt(2)
            found = [f.outcome[..., 1] == "win" for f in judged(x, design)]
            cells.append(f"{share(found):.0f}")
        return cells

    heads = [f"{k - 1} x {n}" for k in (2, METHODS) for n in sizes]
    tests: tuple[Test, ...] = ("moderated", "hall", "wilcoxon")
    columns = heads + [f"finds, {n}" for n in sizes]
    lines = {test: partial(line, test) for test in tests}
    return Part("errs, methods x seeds; finds 2 sd", columns, lines)


def found_best() -> Part:
    """How often the best of nine is called so, for these rows and for fresh ones."""

    def line(d: int, _: Generator) -> list[str]:
        cells = []
        for n in (3, 5, 10, 20):
            said = []
            for shared in (0.0, 2 / 9):
                f = judged(*differing(n, d, 1, shared=shared))
                said.append(
                    share([(b := c.best).clear[..., 0] & (b.leader[..., 0] == 1) for c in f])
                )
            cells.append(" / ".join(f"{s:.0f}" for s in said))
        return cells

    words = "standard deviation{} ahead of all"
    lines = {f"{d} {words.format('s' * (d > 1))}": partial(line, d) for d in (1, 2, 3)}
    return Part("the best of nine, by", [f"{n} seeds" for n in (3, 5, 10, 20)], lines)


def powers() -> Part:
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

    def line(world: tuple[float, int, float], _: Generator) -> list[str]:
        return [
            f"{students_power(n, *world):.0f} / {power(n, *world):.0f} / "
            f"{power(n, *world, shared=2 / 9):.0f}"
            for n in sizes
        ]

    lines = {name: partial(line, world) for name, world in worlds.items()}
    return Part("a difference of", [f"{n} seeds" for n in sizes], lines)


def equals() -> Part:
    """How often methods are called equal within a margin, by how far they are apart."""

    def line(apart: float, rng: Generator) -> list[str]:
        cells = []
        for n in (5, 10, 20):
            for margin in (1.0, 2.0, 4.0):
                x = rng.standard_normal((TIMES // 2, 1, METHODS, n)) / np.sqrt(2)
                x[:, :, 1:] += apart * margin
                found = [f.outcome[..., 1:] == "equal" for f in judged(x, margin=margin)]
                wrong = share([f.any((-1, -2)) for f in found])
                cells.append(f"{wrong if apart == 1 else share(found):.0f}")
        return cells

    heads = [f"{n} seeds, {m} sd" for n in (5, 10, 20) for m in (1, 2, 4)]
    lines = {f"{apart:.1f} margins": partial(line, apart) for apart in (0.0, 0.5, 1.0)}
    return Part("all eight are apart from the baseline by", heads, lines)


def coverage() -> Part:
    """How often corrected intervals hold the true differences: each, and all at once."""

    def line(d: float, rng: Generator) -> list[str]:
        cells = []
        for n in (5, 20):
            x = rng.standard_normal((TIMES // 2, 1, METHODS, n)) / np.sqrt(2)
            x[:, :, 1:] += d
            each, every = [], []
            for f in judged(x):
                low, high = f.corrected_interval()
                held = ((low <= d) & (d <= high))[..., 1:]
                each.append(held)
                every.append(held.all((-1, -2)))
            cells.append(f"{share(each):.0f} / {share(every):.0f}")
        return cells

    worlds = {"no differences": 0.0, "all differ by 2 standard deviations": 2.0}
    lines = {words: partial(line, d) for words, d in worlds.items()}
    return Part("each / all eight", ["5 seeds", "20 seeds"], lines)


def detectable() -> Part:
    """The least difference that 80 of 100 comparisons find, as it is printed, and how many do."""

    def line(rng: Generator) -> list[str]:
        cells = []
        for n in (3, 5, 10, 20):
            one = Known(*(np.array(a) for a in (0.0, [1.0], [n**-0.5], [n - 1.0], 0.0)))
            d = float(one.detectable(ALPHA / 8))
            x = rng.standard_normal((TIMES, 1, METHODS, n)) / np.sqrt(2)
            printed = np.concatenate([f.detectable()[..., 1:].ravel() for f in judged(x)])
            typical = float(np.median(printed))
            x[:, :, 1] -= typical
            found = share([f.outcome[..., 1] == "loss" for f in judged(x)])
            cells.append(f"{d:.1f} / {typical:.1f} (found in {found:.0f} %)")
        return cells

    heads = [f"{n} seeds" for n in (3, 5, 10, 20)]
    return Part("Student's / ours", heads, {"of eight methods": line})


def nemenyi() -> Part:
    """How often mean ranks of equal methods are called apart."""

    def line(rng: Generator, methods: int) -> list[str]:
        cells = []
        for c in (5, 9, 20):
            found = [ranks(x) for x in rng.standard_normal((TIMES, c, methods))]
            apart = 100 * np.mean([np.ptp(f.mean) >= f.apart for f in found])
            cells.append(f"{apart:.1f} / {100 * np.mean([f.p < ALPHA for f in found]):.1f}")
        return cells

    heads = [f"{c} conditions" for c in (5, 9, 20)]
    sizes = {"nine": METHODS, "two": 2}
    lines = {f"{word} equal methods": partial(line, methods=k) for word, k in sizes.items()}
    return Part("any two apart / Friedman", heads, lines)


PARTS: dict[str, Callable[[], Part]] = {
    f.__name__: f
    for f in (
        *(family, independent, few_methods, shared_rows, two_best, skew),
        *(equals, coverage, nemenyi, powers, found_best, detectable),
    )
}


def made(name: str, number: int) -> list[str]:
    """One line of a table; the same whichever others are made."""
    line = list(PARTS[name]().lines.values())[number]
    return line(np.random.default_rng((SEED, list(PARTS).index(name), number)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", help=", ".join(PARTS))
    options.add_argument("--processes", type=int, default=1)
    chosen = options.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        options.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    with ProcessPoolExecutor(chosen.processes) as pool:
        jobs = {
            name: [pool.submit(made, name, i) for i in range(len(PARTS[name]().lines))]
            for name in chosen.parts or PARTS
        }
        for name, lines in jobs.items():
            part = PARTS[name]()
            print(f"## {name}\n")
            cells = [line.result() for line in lines]
            table(part.head, part.columns, dict(zip(part.lines, cells, strict=True)))


if __name__ == "__main__":
    main()
