"""Who takes part in a tournament: methods that need no further data, with their defaults."""

from typing import NamedTuple

from unalike import rng
from unalike.compare.execution.budget import Forecast
from unalike.errors import UnalikeError
from unalike.federation.data import Federation
from unalike.run.configuration.config import Config, parse
from unalike.run.experiment.build import assemble
from unalike.run.experiment.cadence import Work
from unalike.run.experiment.counting import work
from unalike.run.experiment.program import program
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task

BASELINE = "fedavg"
SHARED = (
    BASELINE,
    *("fedprox", "scaffold", "fednova", "fedavgm", "fedadam", "feddisco", "aaggff_d", "fedaug"),
)
PERSONAL = ("local_only", "superfed_mm", "lg_fedavg")  # clients are tested with their own models
IMAGES_ONLY = ("fedaug",)  # on tables it can add noise only


class Entrant(NamedTuple):
    """A method that may win."""

    name: str
    config: Config

    @property
    def personal(self) -> bool:
        """Whether every client ends with its own model."""
        return self.name in PERSONAL

    @property
    def rate(self) -> float:
        """The learning rate of its clients."""
        return self.config.local.lr

    def at(self, rate: float) -> "Entrant":
        """The same method with another learning rate."""
        local = self.config.local.model_copy(update={"lr": rate})
        return self._replace(config=self.config.model_copy(update={"local": local}))

    def sends(self, data: Federation) -> int:
        """Bytes in all rounds of the file if no client fails; rounds need not be equal."""
        made = assemble(self.config, data, task(self.config, data.examples))
        return Forecast(made).total(made.course.rounds).bytes


class Lineup(NamedTuple):
    """Who takes part, and why others do not."""

    entrants: list[Entrant]
    left_out: dict[str, str]  # method -> reason
    works: tuple[Work, ...] = ()  # of their rounds and evaluations


def lineup(config: Config, data: Federation) -> Lineup:
    """The curated methods that these data and settings allow.

    The file's own method keeps its settings; what was combined with it is left out, since methods
    are compared alone.
    """
    made = task(config, data.examples)
    entrants: list[Entrant] = []
    left_out: dict[str, str] = {}
    works: list[Work] = []
    for name in (*SHARED, *PERSONAL):
        if name in IMAGES_ONLY and data.examples.x.ndim != 4:
            left_out[name] = "the data are not images."
            continue
        try:
            own = _with(config, name)
            stages, draft = program(own, made, Shape.of(data))
            w = draft.task.init(rng.key(0))
            found = work(own, data, draft, stages[-1].recipe, w)
        except UnalikeError as error:
            if name == BASELINE:
                raise
            left_out[name] = str(error)
        else:
            entrants.append(Entrant(name, own))
            works.append(found)
    return Lineup(entrants, left_out, tuple(works))


def _with(config: Config, name: str) -> Config:
    raw = config.resolved() | {"plus": [], "track": {}}
    if name != config.method.name:
        raw["method"] = {"name": name}
    return parse(raw)
