"""The live objects of a run, whoever put them together."""

from dataclasses import dataclass, field

from unalike.engine.attacks import Attack
from unalike.engine.course import Course
from unalike.engine.evaluation.server import Evaluator
from unalike.engine.loop import Loop
from unalike.engine.simulation.simulate import Simulation
from unalike.federation.data import Federation
from unalike.parts.privacy.accountant import Accountant
from unalike.recipe import Recipe
from unalike.run.configuration.config import Config
from unalike.run.experiment.cadence import EVERY_ROUND, Cadence
from unalike.tree import Params


@dataclass
class Experiment:
    """A run's live objects."""

    config: Config
    federation: Federation
    simulation: Simulation
    course: Course
    evaluator: Evaluator
    engine: str  # why clients are computed as they are
    earlier: dict[str, float]  # what a run this one builds on has sent and computed
    attackers: tuple[int, ...] = ()
    accountant: Accountant | None = None  # of differential privacy, if there is any
    reference: Params | None = None  # the weights of another run, to measure distances to
    attack: Attack = field(default_factory=Attack)
    note: str = ""  # what a person should know of the method on these data
    cadence: Cadence = EVERY_ROUND  # how often it is evaluated, and why

    @property
    def loop(self) -> Loop:
        """The rounds of the stage the run is in."""
        return self.course.loop

    @property
    def recipe(self) -> Recipe:
        """Of the stage the run is in."""
        return self.loop.recipe

    @property
    def w(self) -> Params:
        """The initial model."""
        return self.course.w
