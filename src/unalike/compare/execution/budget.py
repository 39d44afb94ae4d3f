"""Equal budgets: what a method will use, known before training, and the rounds that a budget buys.

The number of rounds must be known in advance, because schedules depend on it (phase-shift collects
everybody in the last round, learning rates decay over all rounds). Messages have declared forms,
who takes part in which round is a pure function, and training one client on a few examples shows
how often a method differentiates an example.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import channel, tree
from unalike.compare.specification.settings import Budget
from unalike.draws import work
from unalike.engine.loop import Loop, State
from unalike.engine.traffic.downloads import usual
from unalike.engine.traffic.ledger import Traffic, across, opening, traffic
from unalike.engine.traffic.messages import Messages, left_like, told_bytes
from unalike.engine.transport import Replies
from unalike.errors import ConfigError
from unalike.parts.participation.schedule import Plan
from unalike.run.configuration.config import Config
from unalike.run.experiment.build import experiment
from unalike.run.experiment.live import Experiment
from unalike.run.experiment.program import program
from unalike.run.experiment.shape import Shape

TOLERANCE = 0.01  # a few bytes of statistics must not cost a method a whole round, nor buy one


class Use(NamedTuple):
    """What rounds cost."""

    samples: int = 0  # whose gradient is taken, as often as it is
    bytes: int = 0

    def __add__(self, other: tuple[int, ...]) -> "Use":  # type: ignore[override]
        """Both together."""
        return Use(self.samples + other[0], self.bytes + other[1])


class Trial(NamedTuple):
    """What is known of a stage before it runs."""

    loop: Loop
    messages: Messages
    statistics: int  # how many numbers an answer reports
    slope: float  # gradients for each example that is drawn,
    offset: float  # and for each client of a round, whatever it draws
    before: Traffic  # when it begins
    downs: Any  # a download as a round has it
    known: Any  # what selection knows about clients that never answered
    down: int  # bytes
    up: int
    survey: dict[str, Tensor]  # what clients answered


class Forecast:
    """What every round of an experiment will use if no client fails."""

    def __init__(self, made: Experiment) -> None:
        """Trains one client on a few examples; the experiment cannot be used afterwards."""
        self.course, self.n = made.course, made.course.transport.clients.n
        self.sizes, self.earlier = made.course.transport.clients.sizes, made.earlier
        self.trials = [self._tried(s) for s in range(len(made.course.program))]
        self.known: dict[tuple[int, bool], Use] = {}  # a search sums the same rounds again

    def _tried(self, stage: int) -> Trial:
        course = self.course
        stages = course.program
        model = (
            left_like(stages[stage - 1].recipe, course.w, stages[stage].start) if stage else None
        )
        loop = course.enter(stage, model)
        first = course.first(stage, model)
        state = loop.begin(first)
        (two, answer), (four, _) = (self._worked(loop, state, n) for n in (2, 4))
        slope = (four - two) / 2
        messages, before = loop.messages(first), loop.asked
        if stage:
            handed = tree.size_bytes(messages.handed)
            before += opening(loop.recipe.topology, self.n, handed)
        downs, down = tree.map(lambda x: x[None], messages.down), tree.size_bytes(messages.down)
        known, up = loop.timing.blank(downs), channel.size_bytes(messages.wire)
        offset, reported = two - 2 * slope, len(answer.stats)
        told = downs, known, down, up, state.survey
        return Trial(loop, messages, reported, slope, offset, before, *told)

    def _worked(self, loop: Loop, state: State, examples: int) -> tuple[float, Replies]:
        """(the gradients one client takes for so many examples, its answer)."""
        one = torch.zeros(1, dtype=torch.long)
        plan = Plan(one, one, torch.ones(1, dtype=torch.bool), examples / self.sizes[:1].double())
        (part,) = self.course.transport.train(0, plan, loop.downs(state), loop.home)
        return part.work.gradients, part

    def round(self, t: int, last: bool) -> Use:
        """Round ``t``, which is or is not the last of its stage."""
        if (t, last) not in self.known:
            self.known[t, last] = self._used(t, last)
        return self.known[t, last]

    def _used(self, t: int, last: bool) -> Use:
        spans = self.course.spans
        stage = next((s for s, span in enumerate(spans) if t in span), len(spans) - 1)
        trial, start = self.trials[stage], spans[stage].start
        loop, topology = trial.loop, trial.loop.recipe.topology
        span = range(start, t + 1 if last else t + 2)
        plan = loop.timing.plan(t, trial.known, trial.downs, span, trial.survey)
        blank = loop.blank(self.course.w)
        works, edges, _ = loop.timing.in_time(t, plan, trial.downs, blank.stack)
        ids, host = works.ids[works.reply], topology.host(t, self.n)
        gap = None if t == start else self.n / max(len(plan.ids), 1)  # rounds between two calls
        down = usual(loop.recipe, trial.messages.down, gap) if loop.recipe.download else trial.down
        lost, answer = loop.timing.in_vain(t, trial.downs)
        invited, came = torch.cat([plan.ids, lost]), torch.cat([ids, lost])
        up = torch.cat([torch.full_like(ids, trial.up), torch.full_like(lost, answer)])
        cost = traffic(topology, host, invited, came, down, up, trial.statistics)
        if edges is not None:
            cost += across(
                topology,
                loop.hearing.said(edges, loop.home[ids]),
                told_bytes(loop.recipe, blank.stack),
            )
        cost += loop.moved(t, blank)
        if t == start:
            cost += trial.before
        drawn = int(work(self.sizes[works.ids], works.epochs).sum())
        taken = drawn * trial.slope + len(works.ids) * trial.offset
        use = Use(round(taken), cost.total)
        if t == 0 and self.earlier:
            sent = sum(v for k, v in self.earlier.items() if k.startswith("bytes_"))
            use += Use(int(self.earlier["gradients"]), int(sent))
        return use

    def total(self, rounds: int) -> Use:
        """A run of so many rounds."""
        ends = {span.stop - 1 for span in self.course.spans[:-1]} | {rounds - 1}
        return sum((self.round(t, last=t in ends) for t in range(rounds)), Use())

    def rounds(self, kind: str, amount: float, longest: int) -> int:
        """The most rounds, at least one, that the amount buys.

        The last one may lack one per cent of the amount, but not half of what a round costs.
        """
        before = Use()
        for t in range(longest):
            last, between = self.round(t, last=True), self.round(t, last=False)
            lacking = min(TOLERANCE * amount, getattr(between, kind) / 2)
            if getattr(before + last, kind) > amount + lacking:
                return max(t, 1)
            before += between
        return longest


def within(config: Config, budget: Budget, baseline: Config) -> Config:
    """The configuration with the rounds its budget buys.

    If the baseline sets the amount, it keeps its rounds. A method whose use in the baseline's
    rounds is the same within one per cent has the same rounds; a stated amount must be enough for
    them.
    """
    kind = budget.kind
    if kind == "rounds":
        return config
    made = _built(config)
    forecast = Forecast(made)
    if not getattr(forecast.total(made.course.rounds), kind):
        return config  # a method that uses nothing never exhausts its budget
    standard, amount, rounds = Forecast(_built(baseline)), budget.amount, baseline.rounds
    if amount is not None:
        rounds = standard.rounds(kind, amount, budget.longest * rounds)
    usual = getattr(standard.total(rounds), kind)
    if not usual and amount is None:
        raise ConfigError(
            f"the baseline uses no {kind}, so it cannot set a budget for the others; name "
            f"another compare.baseline or an amount, compare.budget.{kind}."
        )
    most = budget.longest * config.rounds
    if amount is not None:
        most = forecast.rounds(kind, amount, most)
    if rounds > most or abs(getattr(forecast.total(rounds), kind) - usual) > TOLERANCE * usual:
        rounds = forecast.rounds(kind, usual, most) if amount is None else most
    return _possible(config.model_copy(update={"rounds": rounds}), budget, made)


def _built(config: Config) -> Experiment:
    """The experiment without traced steps: two steps of one client do not pay for a trace."""
    engine = config.engine.model_copy(update={"traced": False})
    return experiment(config.model_copy(update={"engine": engine}))


def _possible(config: Config, budget: Budget, made: Experiment) -> Config:
    """The configuration, unless the method cannot work in so few rounds."""
    try:
        program(config, made.recipe.algorithm.task, Shape.of(made.federation))
    except ConfigError as error:
        what = str(error).partition(";")[0]  # its remedy may be to raise the rounds
        more = "rounds" if budget.amount is None else f"compare.budget.{budget.kind}"
        raise ConfigError(
            f"'compare.budget' buys too few rounds: {what}; raise {more} or change the method."
        ) from None
    return config
