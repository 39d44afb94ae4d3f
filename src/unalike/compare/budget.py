"""Equal budgets: what a method will use, known before it is trained, and the rounds that buys.

The number of rounds must be known in advance, because schedules depend on it (phase-shift collects
everybody in the last round, learning rates decay over all rounds). So one client is trained on two
examples to see how large a message is; who takes part in which round is a pure function anyway.
"""

from typing import Any, NamedTuple

import torch

from unalike import tree
from unalike.algorithm import Resizes
from unalike.batches import work
from unalike.compare.settings import Budget
from unalike.engine.ledger import traffic
from unalike.engine.loop import Replies
from unalike.errors import ConfigError
from unalike.parts.schedule import Plan
from unalike.run.build import Experiment, experiment, recipe
from unalike.run.config import Config

TOLERANCE = 0.01  # a few bytes of statistics must not cost a method a whole round, nor buy one


class Use(NamedTuple):
    """What rounds cost."""

    samples: int = 0
    bytes: int = 0

    def __add__(self, other: tuple[int, ...]) -> "Use":  # type: ignore[override]
        """Both together."""
        return Use(self.samples + other[0], self.bytes + other[1])


class Forecast:
    """What every round of an experiment will use if no client fails."""

    def __init__(self, made: Experiment) -> None:
        """Trains one client on two examples; the experiment cannot be used afterwards."""
        self.loop, self.recipe, self.n = made.loop, made.recipe, made.simulation.n_clients
        self.sizes, self.earlier = made.simulation.sizes.cpu(), made.earlier
        self.state = made.loop.begin(made.w)
        one = torch.zeros(1, dtype=torch.long)
        plan = Plan(one, one, torch.ones(1, dtype=torch.bool), 2 / self.sizes[:1].double())
        self.messages: dict[int, tuple[list[Any], Replies]] = {}  # from this round on
        for t, servers in self._stages().items():
            downs = made.loop.downs(self.state._replace(servers=servers))
            self.messages[t] = downs, made.simulation.train(0, plan, downs, made.loop.home)

    def _stages(self) -> dict[int, tuple[Any, ...]]:
        """The rounds from which on messages have another size, and servers that send them."""
        algorithm, servers = self.recipe.algorithm, self.state.servers
        if not isinstance(algorithm, Resizes):
            return {0: servers}
        each = [algorithm.stages(s) for s in servers]
        return {t: tuple(stages[t] for stages in each) for t in each[0]}

    def round(self, t: int, last: bool) -> Use:
        """Round ``t``, which is or is not the last."""
        downs, message = self.messages[max(start for start in self.messages if start <= t)]
        plan = self.recipe.schedule.plan(t, t + 1 if last else t + 2, self.n, self.loop.cohorts)
        ids = plan.ids[plan.reply]
        ups, stats = (
            tree.map(lambda x: x.expand(len(ids), *x.shape[1:]), part)
            for part in (message.ups, message.stats)
        )
        links, heard = self.recipe.topology.links(t, self.n), None
        if links is not None:
            heard = self.loop.heard(links, self.loop.home[ids])
        sent = Replies(ids, ups, stats, {})
        cost = traffic(
            self.recipe.topology,
            plan,
            downs,
            sent,
            heard,
            self.state.servers,
            self.loop.hosts(t),
            self.n,
        ).total
        samples = int(work(self.sizes[plan.ids], plan.epochs).sum())
        if t == 0:
            return Use(samples + int(self.earlier.samples), cost + self.earlier.traffic.total)
        return Use(samples, cost)

    def total(self, rounds: int) -> Use:
        """A run of so many rounds."""
        before = sum((self.round(t, last=False) for t in range(rounds - 1)), Use())
        return before + self.round(rounds - 1, last=True)

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

    The baseline keeps its rounds where they set the amount. A method that uses as much in the
    baseline's rounds, but for one per cent, has the same rounds; a stated amount must buy them.
    """
    kind = budget.kind
    if kind == "rounds":
        return config
    made = experiment(config)
    forecast = Forecast(made)
    if not getattr(forecast.total(config.rounds), kind):
        return config  # a method that uses nothing cannot use up its budget
    standard, amount, rounds = Forecast(experiment(baseline)), budget.amount, baseline.rounds
    if amount is not None:
        rounds = standard.rounds(kind, amount, budget.longest * rounds)
    usual = getattr(standard.total(rounds), kind)
    if not usual and amount is None:
        raise ConfigError(
            f"the baseline uses no {kind}, which sets no budget for the others; name another "
            f"compare.baseline or an amount, compare.budget.{kind}."
        )
    most = budget.longest * config.rounds
    if amount is not None:
        most = forecast.rounds(kind, amount, most)
    if rounds > most or abs(getattr(forecast.total(rounds), kind) - usual) > TOLERANCE * usual:
        rounds = forecast.rounds(kind, usual, most) if amount is None else most
    return _possible(config.model_copy(update={"rounds": rounds}), budget, made)


def _possible(config: Config, budget: Budget, made: Experiment) -> Config:
    """The configuration, unless the method cannot work in so few rounds."""
    try:
        recipe(config, made.recipe.algorithm.task, made.federation)
    except ConfigError as error:
        what = str(error).partition(";")[0]  # its remedy may be to raise the rounds
        more = "rounds" if budget.amount is None else f"compare.budget.{budget.kind}"
        raise ConfigError(
            f"'compare.budget' buys too few rounds: {what}; raise {more} or change the method."
        ) from None
    return config
