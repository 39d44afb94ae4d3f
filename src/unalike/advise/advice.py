"""From a tournament to advice: the leader on validation rows, judged once on test rows.

Only the leader of each goal is compared with FedAvg on test rows, so the interval is that of a
single comparison. If it contains zero there is no clear winner, and FedAvg, the simplest, stays.
The same holds if runs had less than half of the file's rounds: many methods lead only early on.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from unalike.advise.entrants import BASELINE, PERSONAL
from unalike.advise.tournament import Outcome, Result
from unalike.compare.statistics.paired import Paired, outcome, paired
from unalike.compare.statistics.reuse import Reuse
from unalike.errors import counted
from unalike.metrics.catalogue import metric
from unalike.tables.format import interval, signed, size

Goal = Literal["shared", "personal"]
SECTION = {"shared": "global", "personal": "local"}  # the test that answers to a goal
TITLES = {"shared": "One shared model", "personal": "A model for each client"}
SHORT = 0.5  # of the file's rounds: with fewer, who leads may only be quicker
RIVALS = {
    "shared": ("no other method with one shared model", "led the methods with one shared model"),
    "personal": ("no other method", "led"),
}


@dataclass(frozen=True)
class Finalist:
    """A method in the last rung that was reached: means over seeds."""

    method: str
    validation: float
    local: float | None
    shared: float | None  # on the global test
    worst10: float | None
    bytes: float  # for all rounds of the file
    rate: float  # the clients' learning rate
    versus: dict[str, Paired | None]  # test -> difference to FedAvg; none for FedAvg


@dataclass(frozen=True)
class Advice:
    """What to use for a goal."""

    goal: Goal
    leader: str
    rates: dict[str, float]  # of the leader and of the baseline, as they were tuned
    clear: bool
    sentence: str  # what speaks for it
    cost: str  # what it would send

    @property
    def method(self) -> str:
        """What is recommended."""
        return self.leader if self.clear else BASELINE

    def as_dict(self) -> dict[str, Any]:
        """As advice.json stores it."""
        return {**asdict(self), "method": self.method, "rate": self.rates[self.method]}


def finals(found: Outcome) -> tuple[list[Result], list[int]]:
    """The runs of the last rung that was completed, and its seeds.

    A seed counts once every method still in the tournament has run it.
    """
    for number in reversed(range(len(found.plan))):
        results = [r for r in found.rung(number) if r.method not in found.failed]
        expected = _expected(found, number)
        seeds = [
            s
            for s in dict.fromkeys(r.seed for r in results)
            if expected <= {r.method for r in results if r.seed == s}
        ]
        if expected and seeds:
            return [r for r in results if r.seed in seeds and r.method in expected], seeds
    return [], []


def _expected(found: Outcome, number: int) -> set[str]:
    """Who has to be in a rung for it to be complete."""
    return set(found.alive[number]) - set(found.failed) if number < len(found.alive) else set()


def finalists(
    found: Outcome, sends: Callable[[str], float], reuse: Mapping[str, Reuse] | None = None
) -> list[Finalist]:
    """Every method of the last complete rung, the best on validation rows first.

    Args:
        found: What was run.
        sends: The bytes of a method in all rounds of the file.
        reuse: How seeds use rows again, by test; without, not at all.
    """
    results, seeds = finals(found)
    by_method = {
        m: sorted((r for r in results if r.method == m), key=lambda r: r.seed)
        for m in dict.fromkeys(r.method for r in results)
    }
    means = {m: sum(r.score for r in rs) / len(seeds) for m, rs in by_method.items()}
    return [
        _finalist(found, by_method, m, means[m], sends(m), reuse or {})
        for m in found.best_first(means)
    ]


def _finalist(
    found: Outcome,
    by_method: dict[str, list[Result]],
    method: str,
    score: float,
    sent: float,
    reuse: Mapping[str, Reuse],
) -> Finalist:
    runs, base = by_method[method], by_method.get(BASELINE, [])
    versus: dict[str, Paired | None] = {}
    for section in ("local", "global"):
        mine, others = (_tests(rs, section, found.metric) for rs in (runs, base))
        known = method != BASELINE and None not in mine + others and others
        both = _numbers(mine), _numbers(others)
        versus[section] = paired(*both, reuse=reuse.get(section)) if known else None
    return Finalist(
        method,
        score,
        _mean(_tests(runs, "local", found.metric)),
        _mean(_tests(runs, "global", found.metric)),
        _mean(_tests(runs, "local", found.metric, "worst10")),
        sent,
        runs[-1].rate,
        versus,
    )


def advise(found: Outcome, lines: list[Finalist], rounds: int) -> list[Advice]:
    """One piece of advice for each goal, with what it would send in so many rounds."""
    goals: tuple[Goal, ...] = ("shared", "personal")
    return [_advise(found, lines, goal, rounds) for goal in goals if lines]


def _advise(found: Outcome, lines: list[Finalist], goal: Goal, rounds: int) -> Advice:
    able = [f for f in lines if goal == "personal" or f.method not in PERSONAL]
    leader = able[0]
    rates = {f.method: f.rate for f in lines if f.method in (leader.method, BASELINE)}
    clear, sentence = _evidence(found, leader, goal, rates, rounds)
    names = (leader.method, BASELINE) if clear else (BASELINE, leader.method)
    sent = {f.method: size(f.bytes) for f in lines}
    costs = ", ".join(f"{name} {sent[name]}" for name in dict.fromkeys(names))
    cost = f"Sent in {counted(rounds, 'round')}: {costs}."
    return Advice(goal, leader.method, rates, clear, sentence, cost)


def _evidence(
    found: Outcome, leader: Finalist, goal: Goal, rates: dict[str, float], rounds: int
) -> tuple[bool, str]:
    """Whether the leader is better than the baseline beyond chance, and what says so."""
    section, (results, seeds) = SECTION[goal], finals(found)
    nobody, led = RIVALS[goal]
    told = f"over {counted(len(seeds), 'seed')} of {counted(results[0].rounds, 'round')}"
    base = f"{BASELINE} at local.lr = {rates[BASELINE]:g}"
    if leader.method == BASELINE:
        title = metric(found.metric).title
        return True, f"{base}: {nobody} had a better validation {title} {told}."
    name = f"{leader.method} at local.lr = {rates[leader.method]:g}"
    led = f"no clear winner: {name} {led} on validation rows {told}, but"
    difference = leader.versus[section]
    if difference is None:
        return False, f"{led} there is no {section} test to compare on; raise split.test."
    if difference.p is None:
        return False, f"{led} one seed says nothing about chance; give more --minutes or --seeds."
    low, high = difference.low, difference.high
    within = (
        "the same under every seed"
        if low is None or high is None
        else f"95 % interval {interval(low, high, found.metric)}"
    )
    shown = (
        f"{signed(difference.mean, found.metric)} ({within}) "
        f"in {section} test {metric(found.metric).head}"
    )
    won = outcome(difference, found.higher) == "win"
    if won and results[0].rounds < SHORT * rounds:
        return False, (
            f"{led} that is less than half of the file's {counted(rounds, 'round')}, and an early "
            f"lead of {shown} over {base} may not last; give more --minutes."
        )
    if won:
        return True, f"{name}: compared with {base} it scored {shown} {told}."
    return False, (
        f"{led} compared with {base} it scored {shown}; stay with {BASELINE}, the simplest, or "
        "give more --minutes."
    )


def _tests(
    runs: list[Result], section: str, metric: str, statistic: str = "weighted_mean"
) -> list[float | None]:
    """A number of each run's test at the round its validation rows selected.

    Every row counts the same, as it does where methods are chosen.
    """
    chosen = [r.tests.get(section, {}).get(metric) for r in runs]
    return [None if spread is None else spread[statistic] for spread in chosen]


def _numbers(values: list[float | None]) -> list[float]:
    return [v for v in values if v is not None]


def _mean(values: list[float | None]) -> float | None:
    known = _numbers(values)
    return sum(known) / len(known) if known else None
