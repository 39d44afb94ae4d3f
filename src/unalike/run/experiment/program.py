"""The method of a run as a program of stages, from the configuration and shapes alone.

A site of a deployed run has nothing else, and builds the same.
"""

import math
from dataclasses import replace
from typing import cast

import torch

from unalike import own_code, rng
from unalike.algorithms.buffers import LocalBuffers
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method, compose
from unalike.algorithms.own import OwnMethod
from unalike.engine.server.guard import Guard
from unalike.errors import ConfigError
from unalike.parts.augmentation.training import Augmentation, Augmented
from unalike.parts.participation.schedule import Participation
from unalike.recipe import Program, Recipe
from unalike.run.configuration.config import Config, Named, chosen
from unalike.run.configuration.explain import check
from unalike.run.configuration.topologies import TopologySettings
from unalike.run.experiment.idle import refuse_idle
from unalike.run.experiment.late_clients import joining, refuse_late
from unalike.run.experiment.local import clock, decay, optimizer
from unalike.run.experiment.one_way import refuse_gaps
from unalike.run.experiment.shape import Shape
from unalike.run.folder.earlier_runs import read_model
from unalike.tasks import Task


def program(config: Config, made: Task, shape: Shape) -> tuple[Program, Draft]:
    """The method with everything combined with it, from the configuration and shapes alone."""
    asked = config.participation
    participation = Participation(asked.fraction, asked.number, asked.extra)
    late = joining(config, shape.n_clients)
    participation.count(shape.n_clients - (late.clients if late else 0))  # refuse early
    if config.evaluation.calibration_batch:
        made = made.calibrated(config.evaluation.calibration_batch)
    draft = Draft(
        made,
        shape.n_clients,
        shape.classes,
        shape.features,
        config.rounds,
        opt=optimizer(config.local),
        epochs=config.local.epochs,
        participation=participation,
        late=late,
        topology=cast(TopologySettings, chosen("topology", config.topology)).build(),
        batch_size=config.local.batch_size,
        decay=decay(config.local, config.rounds),
        read=read_model,
        protected=len(shape.protected),
        clock=clock(config.clock),
    )
    methods = [_method(n) for n in (config.method, *config.plus)]
    if config.run.buffers == "local":
        methods.append(("buffers", LocalBuffers()))
    with own_code.refused("your own method"):
        draft = compose(draft, methods, config.topology.name)
    draft = _augmented(config, draft, shape)
    refuse_late(draft)
    refuse_gaps(draft, config)
    stages, n, t = draft.program(), draft.n_clients, 0
    refuse_idle(draft)
    for stage in stages:  # impossible plans are refused here
        span = range(t, t + stage.rounds)
        plan = stage.recipe.schedule.plan(span.start, span, n, rng.key(0))
        if int(plan.reply.sum()) < config.faults.min_replies:
            raise ConfigError(
                f"faults.min_replies is {config.faults.min_replies} but only "
                f"{int(plan.reply.sum())} clients answer in a round; lower it or raise the "
                "participation."
            )
        stage.recipe.topology.home(n)
        stage.recipe.topology.links(0, n)
        t = span.stop
    return stages, draft


def _method(named: Named) -> tuple[str, Method]:
    """A method and its name; one of the user's own is that of its class."""
    made = cast(Method, chosen("method", named))
    if not isinstance(made, OwnMethod):
        return named.name, made
    with own_code.refused(f"'{made.attribute}' of '{made.file}'"):
        found = check(made.load(), made.settings, "method.settings", made.attribute)
    return made.attribute, found


def _augmented(config: Config, draft: Draft, shape: Shape) -> Draft:
    """The draft with every training row altered, if the configuration says so."""
    how = cast(Augmentation, chosen("augment", config.augment))
    if type(how) is Augmentation:
        return draft
    if why := how.misfit(shape.features, not getattr(torch, shape.dtype).is_floating_point):
        raise ConfigError(
            f"augment.name = '{config.augment.name}' {why}, and an example of these data has the "
            f"shape {shape.features} of {shape.dtype}; use another, or leave it out."
        )
    return replace(draft, transform=Augmented(how, draft.transform))


def releases(stages: Program) -> tuple[range, Recipe | None]:
    """(the rounds in which updates are released under a promise, the recipe that promises it)."""
    t, end, promised = 0, 0, None
    for stage in stages:
        t += stage.rounds
        if stage.recipe.guarantee is not None:
            end, promised = t, stage.recipe
    return range(end), promised


def guard_of(config: Config, stages: Program) -> Guard:
    """Which answers are refused, and what happens when too few are left."""
    f, (_, promised) = config.faults, releases(stages)
    # Refusing clients that differ from the others would depend on data in a way no epsilon counts.
    return Guard(math.inf if promised else f.explode, f.min_replies, f.too_few)
