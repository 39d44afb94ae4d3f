"""How often the paired tests of a comparison find a difference where there is none.

python benchmarks/false_alarms.py > false_alarms.md

Differences of mean zero are drawn for 3, 5, 10 and 20 seeds, 20,000 times each, and judged by the
very function that judges comparisons; below, differences that are there. Last, 2,000 times each,
how often an interval holds the true mean.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unalike.compare.statistics import ALPHA, p_values, summarise

TIMES, FEWER, SEEDS = 20_000, 2_000, (3, 5, 10, 20)
Shape = tuple[int, int]
Sample = NDArray[np.float64]


def itself(draw, shape: Shape) -> Sample:
    """A method against itself: the difference of two equal draws."""
    return draw(shape) - draw(shape)


def nulls(rng: Generator) -> dict[str, Sample]:
    return {
        "normal": rng.standard_normal,
        "normal, in coarse steps": lambda s: np.round(rng.standard_normal(s)),
        "a method with itself: uniform": lambda s: itself(lambda z: rng.uniform(size=z), s),
        "a method with itself: exponential": lambda s: itself(rng.standard_exponential, s),
        "a method with itself: collapses once in ten": lambda s: itself(
            lambda z: (rng.random(z) < 0.1) + 0.05 * rng.standard_normal(z), s
        ),
        "heavy tails: Student's t, 3 degrees": lambda s: rng.standard_t(3, s),
        "heavy tails: Student's t, 2 degrees": lambda s: rng.standard_t(2, s),
        "no tails: uniform": lambda s: rng.uniform(-1, 1, s),
        "skewed: Gumbel (1.1)": lambda s: rng.gumbel(size=s) - np.euler_gamma,
        "skewed: lognormal, σ = 0.5 (1.8)": lambda s: rng.lognormal(0, 0.5, s) - np.exp(1 / 8),
        "skewed: exponential (2)": lambda s: rng.standard_exponential(s) - 1,
        "skewed: lognormal, σ = 1 (6.2)": lambda s: rng.lognormal(0, 1, s) - np.exp(1 / 2),
    }


def rates(d: Sample) -> str:
    """How often each test finds something, in per cent."""
    found = [100 * np.mean(p_values(d, test) < ALPHA) for test in ("t", "hall")]
    return " / ".join(f"{x:.1f}" for x in found)


def coverage(d: Sample) -> str:
    """How often each interval holds the mean, zero, in per cent."""
    held = []
    for kind in ("t", "bootstrap"):
        found = [summarise(x, kind) for x in d]
        held.append(100 * np.mean([s.low <= 0 <= s.high for s in found]))
    return " / ".join(f"{x:.1f}" for x in held)


def table(heads: str, rows: dict, judge=rates, times: int = TIMES) -> None:
    print(f"| {heads} | " + " | ".join(f"{n} seeds" for n in SEEDS) + " |")
    print("| --- |" + " --- |" * len(SEEDS))
    for name, draw in rows.items():
        print(f"| {name} | " + " | ".join(judge(draw((times, n))) for n in SEEDS) + " |")
    print()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    table("no difference: distribution (skewness)", nulls(rng))
    shifted = {
        f"a difference of {k} standard deviation{'s' * (k > 1)}": lambda s, k=k: (
            rng.standard_normal(s) + k
        )
        for k in (1, 2, 3)
    }
    table("normal", shifted)
    some = {k: v for k, v in nulls(rng).items() if k in ("normal", "skewed: exponential (2)")}
    table("the mean is in the interval", some, coverage, FEWER)
