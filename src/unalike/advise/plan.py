"""How many rounds a tournament can afford in its time.

Rung i of successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943) gives r 2^i rounds to
the better half of rung i - 1. Early rungs have two seeds, so that a single lucky run does not
decide; the last one has all seeds. Before the first rung the baseline tunes its learning rate in
runs as long as that rung's; before the last one every finalist does, in runs as long as those of
the previous rung. With c_i runs of the length of rung i, a start of s seconds and t seconds a
round, r is the largest with

    sum_i c_i (s + slack t r 2^i) <= budget    and    r 2^last <= the rounds of the file.

Before the last rung the remaining time is known, and its rounds are raised to what that time
allows. Time that is left when the file's rounds are reached is used for more seeds of the
finalists.
"""

from typing import NamedTuple

from unalike.advise.rates import TRIES

RUNGS = 3
EARLY = 2  # seeds of the rungs before the last, and of a rate
MOST = 20  # seeds of the last rung, if there is time
SLACK = 1.5  # methods cost more than FedAvg, which was timed


class Cost(NamedTuple):
    """What a run costs."""

    start: float  # seconds before its first round
    round: float  # seconds of one


def survivors(n: int) -> int:
    """How many of ``n`` stay: the better half, rounded up."""
    return (n + 1) // 2


def field_sizes(shared: int, personal: int) -> list[int]:
    """Methods in each rung; the two kinds are halved apart, and the baseline always stays.

    >>> field_sizes(9, 3)
    [12, 7, 5]
    """
    out = [shared + personal]
    for _ in range(RUNGS - 1):
        shared, personal = survivors(shared), survivors(personal)
        out.append(shared + personal)
    return [*out[:-1], out[-1] + 1]  # the baseline may have to be added to the last


def rungs(seconds: float, cost: Cost, sizes: list[int], seeds: int, rounds: int) -> list[int]:
    """The rounds of each rung, doubled from one to the next.

    >>> rungs(240, Cost(0.5, 0.01), [12, 7, 5], seeds=5, rounds=100)
    [25, 50, 100]
    """
    early, last = min(EARLY, seeds), sizes[-1]
    runs = [*(n * early for n in sizes[:-1]), last * seeds]
    runs[0] += (1 + TRIES) * early
    runs[-2] += last * TRIES * early
    left = seconds - cost.start * sum(runs)
    unit = SLACK * max(cost.round, 1e-6) * sum(n * 2**i for i, n in enumerate(runs))
    affordable = int(max(left, 0) / unit)
    first = max(1, min(affordable, rounds // 2 ** (RUNGS - 1)))
    return [first * 2**i for i in range(RUNGS) if first * 2**i <= rounds]


def last_rung(
    seconds: float, cost: Cost, finalists: int, seeds: int, planned: int, rounds: int
) -> int:
    """The rounds of the last rung with so much time left: those planned, or more.

    >>> last_rung(60, Cost(0.5, 0.01), finalists=4, seeds=3, planned=8, rounds=500)
    300
    >>> last_rung(1, Cost(0.5, 0.01), finalists=4, seeds=3, planned=8, rounds=500)
    8
    """
    each = seconds / (finalists * seeds) - cost.start
    return max(planned, min(int(each / (SLACK * max(cost.round, 1e-6))), rounds))
