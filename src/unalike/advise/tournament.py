"""A time-boxed tournament: successive halving on validation rows, then seeds for the finalists.

The baseline's learning rate is tuned first, and all methods begin with it; before the last rung
each finalist tunes its own, the baseline too (``rates.py``). Every rung starts its runs again,
since schedules depend on the number of rounds. All methods of a rung get the same rounds, and every
decision is made on validation rows. Each row counts the same, so that a client with a single one
has hardly any influence; test rows are only read afterwards, by ``advice.py``. Methods that share
one model and methods that make personal ones are halved separately, so that neither kind can
eliminate the other.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from unalike.advise.entrants import BASELINE, Entrant
from unalike.advise.plan import EARLY, MOST, Cost, field_sizes, last_rung, rungs, survivors
from unalike.advise.rates import best, search
from unalike.errors import ConfigError, RunWarning, UnalikeError, counted
from unalike.metrics.catalogue import higher
from unalike.run.configuration.config import Config
from unalike.run.experiment.cadence import Work, spaced, sparsest
from unalike.run.experiment.idle import TOO_SHORT
from unalike.run.experiment.live import Experiment
from unalike.run.folder.records import read_lines
from unalike.track.running import start

PILOT = 3  # rounds that are timed
LATEST = 8  # runs from which the cost of the next one is estimated
TIME, INTERRUPTED = "the time was up", "it was interrupted"  # why a tournament may end early


class TimeIsUp(Exception):
    """The tournament's minutes are over."""


class Result(NamedTuple):
    """A finished run."""

    method: str
    rung: int
    rounds: int
    seed: int
    score: float  # on validation rows, each of which counts the same, at the best round by it
    tests: dict[str, Any]  # the other sections of that round
    folder: str
    rate: float = 0.0  # the clients' learning rate


class Tuning(NamedTuple):
    """The scores of a method with some learning rates."""

    method: str
    rounds: int
    scores: dict[float, float | None]  # none if it could not be trained with


@dataclass
class Outcome:
    """Everything a tournament found, as far as it got."""

    metric: str
    plan: list[int] = field(default_factory=list)  # rounds of each rung
    alive: list[list[str]] = field(default_factory=list)  # methods of each rung that began
    results: list[Result] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # method -> what went wrong
    rates: list[Tuning] = field(default_factory=list)
    ended: str = ""  # why it ended early, if it did

    @property
    def higher(self) -> bool:
        """Whether more of the metric is better."""
        return higher(self.metric)

    def rung(self, number: int) -> list[Result]:
        """The runs of one rung."""
        return [r for r in self.results if r.rung == number]

    def means(self, number: int) -> dict[str, float]:
        """Method -> its mean score in a rung."""
        scores: dict[str, list[float]] = {}
        for result in self.rung(number):
            scores.setdefault(result.method, []).append(result.score)
        return {method: sum(s) / len(s) for method, s in scores.items()}

    def dropped(self, number: int) -> list[str]:
        """Methods that did not reach a rung, although they did not fail."""
        began = dict.fromkeys(m for rung in self.alive[:number] for m in rung)
        return [m for m in began if m not in self.alive[number] and m not in self.failed]

    def best_first(self, scores: dict[str, float]) -> list[str]:
        """Methods by score; of equals the one that was named first."""
        return sorted(scores, key=lambda m: -scores[m] if self.higher else scores[m])


class Clock:
    """Watches the runs: ends one when the time is up, and reports progress."""

    def __init__(self, deadline: float, tell: Callable[[str], None]) -> None:
        """``deadline`` by ``time.monotonic``."""
        self.deadline, self.tell = deadline, tell

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """A run begins."""
        self.check()

    def round(self, record: dict[str, Any]) -> None:
        """A round is over."""
        self.check()

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def stopping(self) -> None:
        """Somebody pressed Ctrl-C; the run ends after this round."""

    def check(self) -> None:
        """Refuse to continue after the deadline."""
        if time.monotonic() >= self.deadline:
            raise TimeIsUp


def play(
    entrants: Sequence[Entrant],
    folder: Path,
    seconds: float,
    seeds: int,
    metric: str,
    tell: Callable[[str], None] = lambda text: None,
    works: Sequence[Work] = (),
) -> Outcome:
    """Run the tournament; time, Ctrl-C and a baseline that fails end it with what is known.

    All methods are evaluated in the same rounds, as often as the ``works`` of their rounds and
    evaluations allow, or as their settings say.
    """
    begun = time.monotonic()
    clock, outcome = Clock(begun + seconds, tell), Outcome(metric)
    try:
        cost = _pilot(entrants[0].config, folder, clock, works)
        rounds = entrants[0].config.rounds
        outcome.plan = rungs(clock.left, cost, _sizes(entrants), seeds, rounds)
        _climb(list(entrants), Field(folder, clock, outcome, seeds, [cost], works))
    except TimeIsUp:
        outcome.ended = "" if _done(outcome, seeds) else TIME  # spare seeds are no loss
    except KeyboardInterrupt:
        outcome.ended = INTERRUPTED
    except UnalikeError as error:
        if not outcome.results:
            raise
        outcome.ended = str(error).rstrip(".")
    return outcome


def _done(outcome: Outcome, seeds: int) -> bool:
    """Whether all methods of the last rung have run all seeds that were asked for."""
    last = len(outcome.plan) - 1
    if last < 0 or len(outcome.alive) <= last:
        return False
    results, still = outcome.rung(last), set(outcome.alive[last]) - set(outcome.failed)
    return all(sum(r.method == m for r in results) >= seeds for m in still)


class Field(NamedTuple):
    """The context of a tournament."""

    folder: Path
    clock: Clock
    outcome: Outcome
    seeds: int
    costs: list[Cost]  # of the runs so far, the pilot's first
    works: Sequence[Work] = ()  # of rounds and evaluations; none: as the settings say

    @property
    def cost(self) -> Cost:
        """Of the latest runs: a first one may have met a busy machine."""
        latest = self.costs[-LATEST:]
        return Cost(median(c.start for c in latest), median(c.round for c in latest))

    @property
    def early(self) -> int:
        """Seeds of the rungs before the last, and of a rate."""
        return min(EARLY, self.seeds)


def _climb(alive: list[Entrant], at: Field) -> None:
    """All rungs; seeds follow one another, so that whenever time ends all have had the same."""
    first = _tuned(alive[0], at, at.outcome.plan[0], None)
    alive = [one.at(first.rate) for one in alive]
    sizes = _sizes(alive)
    at.outcome.plan = rungs(at.clock.left, at.cost, sizes, at.seeds, first.config.rounds)
    plan, last = at.outcome.plan, len(at.outcome.plan) - 1
    for number in range(last):
        at.outcome.alive.append([one.name for one in alive])
        for repetition in range(at.early):
            alive = _sweep(alive, at, number, repetition)
        alive = better_half(alive, at.outcome, number)
    known = at.outcome.means(last - 1) if last else {}
    length = plan[max(last - 1, 0)]
    alive = [_tuned(one, at, length, known.get(one.name)) for one in alive]
    at.outcome.alive.append([one.name for one in alive])
    most = alive[0].config.rounds
    plan[last] = last_rung(at.clock.left, at.cost, len(alive), at.seeds, plan[last], most)
    repetition, took = 0, 0.0
    while repetition < at.seeds or (repetition < MOST and at.clock.left > took):
        begun = time.monotonic()
        alive = _sweep(alive, at, last, repetition)
        repetition, took = repetition + 1, 1.1 * (time.monotonic() - begun)


def _sizes(entrants: Sequence[Entrant]) -> list[int]:
    personal = sum(e.personal for e in entrants)
    return field_sizes(len(entrants) - personal, personal)


def _tuned(one: Entrant, at: Field, rounds: int, known: float | None) -> Entrant:
    """The method with the best rate that a short search finds."""

    def score(rate: float) -> float | None:
        found = []
        for repetition in range(at.early):
            seed = one.config.seed + repetition
            at.clock.tell(f"rate {rate:g} of {one.name}, {counted(rounds, 'round')}, seed {seed}")
            name = f"runs/rate{rate:g}-{one.name}-{counted(rounds, 'round')}-seed{seed}"
            try:
                found.append(_run(one.at(rate), at, name.replace(" ", ""), rounds, seed)[0])
            except ConfigError:
                raise
            except UnalikeError:
                return None
        return sum(found) / len(found)

    found = search(score, one.rate, at.outcome.higher, known)
    at.outcome.rates.append(Tuning(one.name, rounds, found))
    return one.at(best(found, at.outcome.higher))


def _sweep(alive: list[Entrant], at: Field, number: int, repetition: int) -> list[Entrant]:
    """One seed of all methods of a rung; those that it leaves."""
    rounds, last = at.outcome.plan[number], len(at.outcome.plan)
    for i, one in enumerate(alive):
        seed = one.config.seed + repetition
        at.clock.tell(
            f"rung {number + 1} of {last}: {one.name}, {counted(rounds, 'round')}, "
            f"seed {seed} ({i + 1} of {len(alive)})"
        )
        _enter(one, at, number, rounds, seed)
    return [one for one in alive if one.name not in at.outcome.failed]


def _enter(one: Entrant, at: Field, rung: int, rounds: int, seed: int) -> None:
    """One run of a rung; a method that cannot be trained in so many rounds is out."""
    name = f"runs/rung{rung + 1}-{one.name}-seed{seed}"
    try:
        score, tests = _run(one, at, name, rounds, seed)
    except UnalikeError as error:
        if one.name == BASELINE:
            raise
        at.outcome.failed[one.name] = f"with {counted(rounds, 'round')}: {error}"
        return
    made = Result(one.name, rung, rounds, seed, score, tests, name, one.rate)
    at.outcome.results.append(made)


def _run(
    one: Entrant, at: Field, name: str, rounds: int, seed: int
) -> tuple[float, dict[str, Any]]:
    """(best score on validation rows, the tests of that round)."""
    at.costs.append(_timed(one.config, at.folder / name, rounds, seed, at.clock, at.works))
    metric = at.outcome.metric
    scores: dict[int, float] = {}
    tests: dict[int, dict[str, Any]] = {}
    for r in read_lines(at.folder / name / "rounds.jsonl"):
        if not r["metrics"]:
            continue
        value = r["metrics"].get("validation", {}).get(metric, {}).get("weighted_mean")
        if value is None:
            raise ConfigError(
                f"no client has validation rows with a defined {metric}, and nothing is ever "
                "chosen on test rows; raise split.validation."
            )
        scores[r["round"]], tests[r["round"]] = float(value), r["metrics"]
    chosen = (max if at.outcome.higher else min)(scores, key=lambda t: scores[t])
    return scores[chosen], tests[chosen]


def _settings(
    config: Config, folder: Path, rounds: int, seed: int, works: Sequence[Work]
) -> Config:
    run = config.run.model_copy(update={"folder": str(folder)})
    update = {"run": run, "rounds": rounds, "seed": seed}
    return spaced(config.model_copy(update=update), sparsest(works, rounds))


def better_half(alive: list[Entrant], outcome: Outcome, rung: int) -> list[Entrant]:
    """The better half of each kind, and the baseline."""
    scores = outcome.means(rung)
    keep = {BASELINE}
    for personal in (False, True):
        kind = {e.name: scores[e.name] for e in alive if e.personal == personal}
        keep.update(outcome.best_first(kind)[: survivors(len(kind))])
    return [e for e in alive if e.name in keep]


def _pilot(config: Config, folder: Path, clock: Clock, works: Sequence[Work]) -> Cost:
    """Time a short run of the baseline; its result plays no part."""
    clock.tell("timing a few rounds of the baseline")
    warm = _settings(config, folder / "runs/warm-up", 1, config.seed, works)
    _start(warm, clock)  # the first is slow
    few = min(PILOT, config.rounds)
    return _timed(config, folder / "runs/pilot", few, config.seed, clock, works)


def _start(config: Config, clock: Clock) -> None:
    """A run; that it is shorter than the file's is no news, nor what only that one would show."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f".*{TOO_SHORT}", RunWarning)
        start(config, clock)


def _timed(
    config: Config, place: Path, rounds: int, seed: int, clock: Clock, works: Sequence[Work]
) -> Cost:
    """What a run cost."""
    begun = time.monotonic()
    _start(_settings(config, place, rounds, seed, works), clock)
    whole = time.monotonic() - begun
    spent = [line["seconds"] for line in read_lines(place / "timing.jsonl")]
    return Cost(max(0.0, whole - sum(spent)), sum(spent) / len(spent))
