"""Mistakes in a recipe that do not depend on the sites' data, found before any site connects.

The shape of the data is only known once all sites are there. Until then the recipe is built for
data of several shapes; it is refused if it can be built for none of them, always for the same
reason. A model that does not fit a shape says nothing about the rest of the recipe.
"""

from collections.abc import Sequence

import torch

from unalike import rng
from unalike.deploy.remote import Remote
from unalike.deploy.summing import refuse_single
from unalike.engine.loop import Loop
from unalike.errors import ConfigError
from unalike.run.configuration.config import Config
from unalike.run.experiment.build import guard_of, program, task
from unalike.run.experiment.shape import Shape
from unalike.tasks import Task

SHAPES = (
    Shape(0, 2, "binary", (4,), (), "float32"),
    Shape(0, 10, "multiclass", (4,), (), "float32"),
    Shape(0, 10, "multiclass", (1, 28, 28), (), "float32"),
    Shape(0, 10, "multiclass", (3, 32, 32), (), "float32"),
    Shape(0, 5, "regression", (4,), (), "float32", target_dtype="float32"),
    Shape(0, 80, "characters", (80,), (80,), "int64"),
)


def rehearse(config: Config, names: Sequence[str]) -> None:
    """Raise the objection to a recipe for these sites, if it holds for any data."""
    built, shown = list[tuple[Shape, Task]](), set[str]()
    for shape in SHAPES:
        shape = shape._replace(n_clients=len(names))
        try:
            built.append((shape, task(config, shape.blank())))
        except ConfigError as error:
            shown.add(str(error))
    if built:
        shown = set()
        for shape, made in built:
            why = _objection(config, names, shape, made)
            if not why:
                return
            shown.add(why)
    if len(shown) == 1:
        raise ConfigError(shown.pop())


def _objection(config: Config, names: Sequence[str], shape: Shape, made: Task) -> str:
    """The objection for data of one shape; empty if there is none."""
    judging = config.evaluation
    try:
        made.refuse(judging.select, judging.ensemble, judging.target)
        _build(config, names, shape, made)
    except ConfigError as error:
        return str(error)
    return ""


def _build(config: Config, names: Sequence[str], shape: Shape, made: Task) -> None:
    stages, draft = program(config, made, shape)
    if config.deploy.secure_aggregation:
        w = draft.task.init(rng.key(0))
        sizes = torch.ones(len(names), dtype=torch.long)
        remote = Remote(None, "", tuple(names), sizes, config.seed)  # type: ignore[arg-type]
        guard = guard_of(config, stages)
        for stage in stages:
            loop = Loop(stage.recipe, remote, range(stage.rounds), config.seed, guard)
            refuse_single(stage.recipe, loop, w)
