"""How often ``unalike advise`` recommends a method that is no better than FedAvg, simulated.

python benchmarks/advice_alarms.py [--times 2000] > advice.txt

Twelve methods are fixed rules that are right on 85 of a hundred rows, on others each, as in
``equal_worlds.py``; every seed splits the same 600 rows anew, and every run errs on two rows of a
hundred besides. They are halved twice on validation rows of two seeds, the finalists' leaders are
compared with FedAvg on test rows, by the very functions that do so. Advice errs if it recommends
anything but FedAvg, for either goal; where one of the rules is better, how often a goal gets it.
"""

import argparse
from functools import partial

import numpy as np
from equal_worlds import SPLIT
from false_alarms import SEED, table
from numpy.random import Generator
from numpy.typing import NDArray

from unalike.advise.advice import advise, finalists
from unalike.advise.entrants import BASELINE, PERSONAL, SHARED, Entrant
from unalike.advise.plan import EARLY, RUNGS
from unalike.advise.tournament import Outcome, Result, better_half
from unalike.compare.statistics.reuse import resplit
from unalike.run.configuration.config import parse

METHODS = (*SHARED, *PERSONAL)
ROWS, SLIPS, SEEDS, ROUNDS = 600, 0.02, (5, 10, 20), 8
BETTER = "fedprox"
REUSE = dict.fromkeys(("local", "global"), resplit(*SPLIT))
Right = NDArray[np.bool_]


def scored(rng: Generator, right: Right, seed: int) -> tuple[float, float]:
    """(on validation rows, on test rows) of a run; a seed's rows are the same for all."""
    order = np.random.default_rng((seed, len(right))).permutation(len(right))
    seen = right ^ (rng.random(len(right)) < SLIPS)
    tested, held = (int(part * len(right)) for part in SPLIT)
    return seen[order[tested : tested + held]].mean(), seen[order[:tested]].mean()


def tournament(rng: Generator, seeds: int, lead: float) -> Outcome:
    """All rungs of one."""
    right = rng.random((len(METHODS), ROWS)) < rng.beta(3.4, 0.6, ROWS)
    right[METHODS.index(BETTER)] |= rng.random(ROWS) < lead
    first, config = int(rng.integers(1 << 30)), parse({"rounds": ROUNDS})
    alive = [Entrant(name, config) for name in METHODS]
    found = Outcome("accuracy", plan=[2, 4, ROUNDS])
    for rung, rounds in enumerate(found.plan):
        found.alive.append([one.name for one in alive])
        for seed in range(seeds if rung == RUNGS - 1 else EARLY):
            for one in alive:
                held, tested = scored(rng, right[METHODS.index(one.name)], first + seed)
                spread = {"accuracy": {"weighted_mean": tested, "worst10": tested}}
                tests = {"local": spread, "global": spread}
                found.results.append(Result(one.name, rung, rounds, seed, held, tests, ""))
        alive = better_half(alive, found, rung)
    return found


def recommended(rng: Generator, seeds: int, lead: float = 0.0) -> list[str]:
    """For each goal."""
    found = tournament(rng, seeds, lead)
    return [a.method for a in advise(found, finalists(found, lambda _: 0.0, REUSE), ROUNDS)]


def wrong(rng: Generator, seeds: int) -> bool:
    """Whether anything but FedAvg is recommended where all are as good."""
    return any(method != BASELINE for method in recommended(rng, seeds))


def right(rng: Generator, seeds: int, lead: float) -> bool:
    """Whether the better one is recommended as the shared model."""
    return recommended(rng, seeds, lead)[0] == BETTER


def line(number: int, times: int) -> list[str]:
    """The cells of a line."""
    made = list(LINES.values())[number]
    rngs = (np.random.default_rng((SEED, number, n)) for n in SEEDS)
    shares = (
        np.mean([made(rng, n) for _ in range(times)]) for rng, n in zip(rngs, SEEDS, strict=True)
    )
    return [f"{100 * share:.1f}" for share in shares]


LINES = {
    "all twelve are as good: anything but FedAvg": wrong,
    "one errs on a fifth fewer rows: that one": partial(right, lead=0.2),
    "one errs on half as many: that one": partial(right, lead=0.5),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--times", type=int, default=2_000)
    times = options.parse_args().times
    print("## advice\n")
    rows = {name: line(i, times) for i, name in enumerate(LINES)}
    table("recommended", [f"{n} seeds" for n in SEEDS], rows)


if __name__ == "__main__":
    main()
