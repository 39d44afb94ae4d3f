"""A time-boxed tournament: successive halving on validation rows, then seeds for the finalists.

Every rung starts its runs again, since schedules depend on the number of rounds. All methods of a
rung get the same rounds, and every decision is made on validation rows; test rows are only read
afterwards, by ``advice.py``. Methods that share one model and methods that make personal ones are
halved apart, so that neither kind can push the other out.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from unalike.advise.entrants import BASELINE, Entrant
from unalike.advise.plan import EARLY, Cost, field_sizes, rungs, survivors
from unalike.advise.words import counted
from unalike.errors import UnalikeError
from unalike.metrics.catalogue import higher
from unalike.run.build import Experiment
from unalike.run.config import Config
from unalike.run.folder import read_json, read_lines
from unalike.run.selecting import validation_score
from unalike.track.running import start

PILOT = 3  # rounds that are timed
TIME, INTERRUPTED = "the time was up", "it was interrupted"  # why a tournament may end early


class TimeIsUp(Exception):
    """The tournament's minutes are over."""


class Result(NamedTuple):
    """A finished run."""

    method: str
    rung: int
    rounds: int
    seed: int
    score: float  # validation, mean over clients, at the round it selects
    summary: dict[str, Any]
    folder: str


@dataclass
class Outcome:
    """Everything a tournament came to, as far as it came."""

    metric: str
    plan: list[int] = field(default_factory=list)  # rounds of each rung
    alive: list[list[str]] = field(default_factory=list)  # methods of each rung that began
    results: list[Result] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # method -> what went wrong
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
        """Methods that did not come as far as a rung, although nothing was wrong with them."""
        began = dict.fromkeys(m for rung in self.alive[:number] for m in rung)
        return [m for m in began if m not in self.alive[number] and m not in self.failed]

    def best_first(self, scores: dict[str, float]) -> list[str]:
        """Methods by score; of equals the one that was named first."""
        return sorted(scores, key=lambda m: -scores[m] if self.higher else scores[m])


class Clock:
    """Watches the runs: ends one when the time is up, and tells what is going on."""

    def __init__(self, deadline: float, tell: Callable[[str], None]) -> None:
        """``deadline`` by ``time.monotonic``."""
        self.deadline, self.tell = deadline, tell

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """A run begins."""
        self.check()

    def round(self, record: dict[str, Any]) -> None:
        """A round is over."""
        self.check()

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
) -> Outcome:
    """Run the tournament; time, Ctrl-C and a baseline that fails end it with what is known."""
    begun = time.monotonic()
    clock, outcome = Clock(begun + seconds, tell), Outcome(metric)
    try:
        cost = _pilot(entrants[0].config, folder, clock)
        personal = sum(e.personal for e in entrants)
        sizes = field_sizes(len(entrants) - personal, personal)
        left = clock.deadline - time.monotonic()
        outcome.plan = rungs(left, cost, sizes, seeds, entrants[0].config.rounds)
        _climb(list(entrants), folder, clock, seeds, outcome)
    except TimeIsUp:
        outcome.ended = TIME
    except KeyboardInterrupt:
        outcome.ended = INTERRUPTED
    except UnalikeError as error:
        if not outcome.results:
            raise
        outcome.ended = str(error).rstrip(".")
    return outcome


def _climb(alive: list[Entrant], folder: Path, clock: Clock, seeds: int, outcome: Outcome) -> None:
    """All rungs; seeds follow one another, so that whenever time ends all have had the same."""
    last = len(outcome.plan) - 1
    for number, rounds in enumerate(outcome.plan):
        outcome.alive.append([one.name for one in alive])
        for repetition in range(seeds if number == last else min(EARLY, seeds)):
            for i, one in enumerate(alive):
                seed = one.config.seed + repetition
                clock.tell(
                    f"rung {number + 1} of {last + 1}: {one.name}, {counted(rounds, 'round')}, "
                    f"seed {seed} ({i + 1} of {len(alive)})"
                )
                _enter(one, folder, clock, outcome, number, rounds, seed)
            alive = [one for one in alive if one.name not in outcome.failed]
        if number < last:
            alive = _better_half(alive, outcome, number)


def _enter(
    one: Entrant, folder: Path, clock: Clock, outcome: Outcome, rung: int, rounds: int, seed: int
) -> None:
    """One run; a method that cannot be trained in so many rounds is out."""
    name = f"runs/rung{rung + 1}-{one.name}-seed{seed}"
    config = _settings(one.config, folder / name, rounds, seed)
    try:
        start(config, clock)
    except UnalikeError as error:
        if one.name == BASELINE:
            raise
        outcome.failed[one.name] = f"with {counted(rounds, 'round')}: {error}"
        return
    records = read_lines(folder / name / "rounds.jsonl")
    score = _validation(records, outcome)
    summary = read_json(folder / name / "summary.json")
    outcome.results.append(Result(one.name, rung, rounds, seed, score, summary, name))


def _settings(config: Config, folder: Path, rounds: int, seed: int) -> Config:
    run = config.run.model_copy(update={"folder": str(folder)})
    return config.model_copy(update={"run": run, "rounds": rounds, "seed": seed})


def _validation(records: list[dict[str, Any]], outcome: Outcome) -> float:
    """The best validation score of a run."""
    scores = [validation_score(r, outcome.metric) for r in records]
    return (max if outcome.higher else min)(s for s in scores if s is not None)


def _better_half(alive: list[Entrant], outcome: Outcome, rung: int) -> list[Entrant]:
    """The better half of each kind, and the baseline."""
    scores = outcome.means(rung)
    keep = {BASELINE}
    for personal in (False, True):
        kind = {e.name: scores[e.name] for e in alive if e.personal == personal}
        keep.update(outcome.best_first(kind)[: survivors(len(kind))])
    return [e for e in alive if e.name in keep]


def _pilot(config: Config, folder: Path, clock: Clock) -> Cost:
    """Time a short run of the baseline; its result plays no part."""
    clock.tell("timing a few rounds of the baseline")
    start(_settings(config, folder / "runs/warm-up", 1, config.seed), clock)  # the first is slow
    begun, place = time.monotonic(), folder / "runs/pilot"
    start(_settings(config, place, min(PILOT, config.rounds), config.seed), clock)
    whole = time.monotonic() - begun
    spent = [line["seconds"] for line in read_lines(place / "timing.jsonl")]
    return Cost(max(0.0, whole - sum(spent)), sum(spent) / len(spent))
