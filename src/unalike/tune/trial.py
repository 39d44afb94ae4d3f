"""One trial: the same settings for every seed, round by round, judged on validation rows."""

from collections.abc import Callable, Iterator
from functools import cache

from unalike import rng
from unalike.federation.data import Federation
from unalike.metrics.catalogue import higher
from unalike.run.configuration.config import Config
from unalike.run.experiment.build import assemble, federation
from unalike.run.experiment.cadence import Work, spaced
from unalike.run.experiment.counting import work
from unalike.run.experiment.program import program
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task
from unalike.run.measures.selecting import selection_metric, validation_score
from unalike.run.rounds import Step, rounds
from unalike.tune.space import Tuning

Values = dict[str, object]


class Trials:
    """Runs trials; data are loaded once for each seed, since no trial may change them."""

    def __init__(self, tuning: Tuning) -> None:
        self.tuning, self.metric = tuning, selection_metric(tuning.config)
        self.higher = higher(self.metric)
        self.data: Callable[[int], Federation] = cache(lambda seed: federation(tuning.at({}, seed)))
        self.work: Callable[[], Work] = cache(self._work)  # the same for all trials

    def load(self) -> None:
        """The data of every seed; missing data are not the fault of a trial's settings."""
        for seed in range(self.tuning.settings.seeds):
            self.data(seed)

    def best(self, scores: list[float]) -> float:
        """Of the scores of a trial's rounds, that of the round it would select."""
        return (max if self.higher else min)(scores)

    def scores(self, values: Values) -> Iterator[tuple[int, float]]:
        """(round, validation score) of every evaluated round: the mean over clients and seeds."""
        configs = [self.tuning.at(values, s) for s in range(self.tuning.settings.seeds)]
        for steps in zip(*(self._run(c, s) for s, c in enumerate(configs)), strict=True):
            found = [validation_score(step.record, self.metric) for step in steps]
            known = [score for score in found if score is not None]
            if known:
                yield steps[0].round, sum(known) / len(known)

    def _run(self, config: Config, seed: int) -> Iterator[Step]:
        data = self.data(seed)
        config = spaced(config, self.work().every(config.rounds))
        return rounds(assemble(config, data, task(config, data.examples)))

    def _work(self) -> Work:
        """Of a round and an evaluation with the file's own settings."""
        config, data = self.tuning.config, self.data(0)
        stages, draft = program(config, task(config, data.examples), Shape.of(data))
        w = draft.task.init(rng.key(0))
        return work(config, data, draft, stages[-1].recipe, w)
