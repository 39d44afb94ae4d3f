"""From a configuration to live objects; the only place where both are known."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import nn

from unalike import own_code, rng
from unalike.algorithms.buffers import LocalBuffers
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method, compose
from unalike.algorithms.own import OwnMethod
from unalike.engine.attacks import Attack, AttackedTransport
from unalike.engine.client.states import OnDisk
from unalike.engine.course import Course
from unalike.engine.evaluation.judging import Exam
from unalike.engine.evaluation.server import Evaluator
from unalike.engine.faults import Faults, FaultyTransport
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.engine.simulation.distributed import Distributed
from unalike.engine.simulation.ranks import Ranks
from unalike.engine.simulation.simulate import Simulation
from unalike.engine.transport import Transport
from unalike.errors import ConfigError, UnalikeError, warn_once
from unalike.federation.build import federate
from unalike.federation.data import TRAIN, Examples, Federation
from unalike.federation.datasets.base import Dataset
from unalike.federation.partition.base import Partitioner
from unalike.federation.shift.base import Shift
from unalike.generator import seeded
from unalike.models.base import Model
from unalike.models.own import OwnModel
from unalike.parts.augmentation import Augmentation, Augmented
from unalike.parts.privacy.accountant import Accountant
from unalike.parts.schedule import Participation
from unalike.recipe import Program, Recipe
from unalike.run.configuration.config import Config, Named, tables
from unalike.run.configuration.explain import check
from unalike.run.configuration.topologies import TopologySettings
from unalike.run.engines.choice import engine
from unalike.run.experiment.cadence import EVERY_ROUND, Cadence, cadence
from unalike.run.experiment.counting import work
from unalike.run.experiment.device import device, prepare
from unalike.run.experiment.earlier_runs import COUNTED, read_model, used
from unalike.run.experiment.fit import fit, misfit, outputs
from unalike.run.experiment.late_clients import joining, refuse_late
from unalike.run.experiment.local import clock, decay, optimizer
from unalike.run.experiment.one_way import refuse_gaps
from unalike.run.experiment.protected import blind
from unalike.run.experiment.shape import Shape
from unalike.run.folder.environment import cores
from unalike.run.measures.divergence import weights_of
from unalike.run.measures.extractor import extractor
from unalike.settings import Settings
from unalike.tasks import TASKS, NetworkTask, Task
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


def chosen(section: str, named: Named) -> Settings:
    """The settings object a naming table of the configuration stands for.

    Defaults are left unset, so that a dataset can refuse settings it has no use for.
    """
    if named.given is not None:
        return cast(Settings, named.given)
    cls = tables()[section][named.name]
    fields = cls.model_fields
    return cls(**{k: v for k, v in named.settings.items() if v != fields[k].get_default()})


def federation(config: Config) -> Federation:
    """Load, partition, split and shift the data."""
    dataset = cast(Dataset, chosen("data", config.data))
    return federate(
        dataset,
        cast(Partitioner, chosen("partition", config.partition)),
        [cast(Shift, chosen("shift", s)) for s in config.shift],
        validation=config.split.validation,
        test=config.split.test,
        new_clients=config.split.new_clients,
        adapt=bool(config.evaluation.new_client_steps),
        seed=config.seed,
    )


def module(config: Config, examples: Examples) -> nn.Module:
    """The named model, built for the data."""
    model = cast(Model, chosen("model", config.model))
    try:
        # PyTorch draws the weights of a new module from its global generator.
        with seeded(rng.stream(config.seed, "init")):
            return blind(model, tuple(examples.x.shape[1:]), outputs(examples), examples.protected)
    except (UnalikeError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a module of the user's own may raise anything, also SystemExit
        raise misfit(f"model '{config.model.name}'", examples, error) from error


def task(config: Config, examples: Examples) -> Task:
    """What is learned, with the named model."""
    what, track = f"model '{config.model.name}'", config.run.buffers != "drop"
    model = cast(Model, chosen("model", config.model))
    if config.run.init == "given" and model.init != "glorot":
        raise ConfigError(
            f"model.init = '{model.init}' draws weights, and run.init = 'given' keeps the "
            "module's own; leave one of them out."
        )
    if getattr(model, "weights", "") and config.run.init != "given":
        raise ConfigError(
            "model.weights are pre-trained but would be drawn at random; set run.init = 'given'."
        )
    learn = partial(TASKS[model.task or examples.kind], **model.options())
    how = config.engine
    kernels = how.kernels and device(how.device).type == "cuda"
    made = module(config, examples)
    built = model.name, repr(model), examples.x.shape[1:], outputs(examples), examples.protected
    alike = None if isinstance(model, OwnModel) else built  # a file may change between two runs
    return fit(made, examples, what, track, learn, kernels, how.bf16, model.init, alike)


def _method(named: Named) -> tuple[str, Method]:
    """A method and its name; one of the user's own is that of its class."""
    made = cast(Method, chosen("method", named))
    if not isinstance(made, OwnMethod):
        return named.name, made
    with own_code.refused(f"'{made.attribute}' of '{made.file}'"):
        found = check(made.load(), made.settings, "method.settings", made.attribute)
    return made.attribute, found


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


Settle = Callable[[Config, Federation, Task], Config]


def experiment(
    config: Config, ranks: Ranks | None = None, settle: Settle | None = None
) -> Experiment:
    """Everything a run needs, checked as far as it can be before the first round.

    With ``ranks`` this process is one of several that share the clients; ``settle`` may decide what
    a configuration leaves open, once for all times.
    """
    device(config.engine.device)  # refuse early: the data may take a while
    data = federation(config)
    with own_code.refused("your own code"):
        if config.evaluation.fidelity and config.evaluation.extractor:
            extractor(config.evaluation.extractor)
        made = task(config, data.examples)
        config = config if settle is None else settle(config, data, made)
        return assemble(config, data, made, ranks)


def _exam(config: Config) -> Exam:
    """What clients judge, and how many of them."""
    asked, late = config.evaluation, config.participation.late
    return Exam(
        asked.ensemble,
        asked.train,
        asked.line,
        tuple(asked.new_client_steps),
        asked.adversary,
        0 if late else asked.clients,  # those that join late have the last numbers
    )


def assemble(
    config: Config, data: Federation, made: Task, ranks: Ranks | None = None
) -> Experiment:
    """A method with its clients and its evaluator, for given data and a network."""
    on = device(config.engine.device)
    prepare(on, config.engine.tf32, made.network.dense)
    judging = config.evaluation
    made.refuse(judging.select, judging.ensemble, judging.target)
    if config.local.class_weights == "balanced":
        made = made.balanced(data.counts.sum(0))
    if config.participation.extra and config.clock.kind == "none":
        raise ConfigError(
            "participation.extra needs to know who is late; set clock.kind = 'simulated'."
        )
    stages, draft = program(config, made, Shape.of(data))
    key = rng.fold_in(rng.stream(config.seed, "init"), -2)  # client keys fold in 0, 1, ...
    made = cast(NetworkTask, draft.task)  # with what a method adds to it
    w = made.network.given() if config.run.init == "given" else made.init(key)
    rows = data.pooled() if draft.pooled else data.rows(TRAIN)
    attack = cast(Attack, chosen("attack", config.attack))
    liars = attack.attackers(draft.n_clients, config.seed)
    choice = engine(config, made, data, on)
    simulation = Simulation(
        stages[0].recipe,
        attack.poison(data.examples, rows.order[torch.isin(rows.owner, liars)]),
        rows,
        w,
        draft.n_clients,
        seed=config.seed,
        engine=choice.engine,
        device=on,
        workers=config.engine.workers or max(1, cores() // (ranks.local if ranks else 1)),
        graphs=config.engine.graphs,
        compiled=choice.compiled,
        traced=choice.traced,
        native=choice.native,
        chunk=config.engine.chunk,
        states=OnDisk() if config.engine.states == "disk" else None,
        federation=data,
        exam=_exam(config),
    )
    f, last = config.faults, stages[-1].recipe
    released, promised = releases(stages)
    transport: Transport = simulation
    faults = Faults(f.drop, f.straggle, f.least_work, f.garbage, f.kind)
    if ranks is not None:
        transport = Distributed(simulation, ranks, sums=not len(liars) and not faults.any)
    if len(liars):
        transport = AttackedTransport(transport, attack, liars, config.seed)
    if faults.any:
        transport = FaultyTransport(transport, faults, config.seed)
    guard = guard_of(config, stages)
    course = Course(stages, transport, config.seed, guard, simulation.w)
    metric = made.headline if judging.select == "auto" else judging.select
    by = metric if judging.line else ""
    late = config.participation.late
    own, each = tests(data, on), simulation.each
    judge = Evaluator(course, own, config.seed, judging.ensemble, by, late, each)
    accountant = None
    if promised is not None and promised.guarantee is not None:
        n, cohorts = draft.n_clients, course.loop.cohorts
        accountant = Accountant(promised.guarantee, promised.schedule, released, n, cohorts)
    return Experiment(
        config,
        data,
        simulation,
        course,
        judge,
        choice.why,
        _before(data, draft.builds_on),
        tuple(liars.tolist()),
        accountant,
        weights_of(judging.reference, last, simulation.w) if judging.reference else None,
        attack,
        _noted(last, data.counts.sum(0)[None] if draft.pooled else data.counts),
        cadence(config, work(config, data, draft, last, simulation.w), course.rounds),
    )


def guard_of(config: Config, stages: Program) -> Guard:
    """Which answers are refused, and what happens when too few are left."""
    f, (_, promised) = config.faults, releases(stages)
    # Refusing clients that differ from the others would depend on data in a way no epsilon counts.
    return Guard(math.inf if promised else f.explode, f.min_replies, f.too_few)


def releases(stages: Program) -> tuple[range, Recipe | None]:
    """(the rounds in which updates are released under a promise, the recipe that promises it)."""
    t, end, promised = 0, 0, None
    for stage in stages:
        t += stage.rounds
        if stage.recipe.guarantee is not None:
            end, promised = t, stage.recipe
    return range(end), promised


def _before(data: Federation, folders: Sequence[str]) -> dict[str, float]:
    """What was sent and computed before the first round: by earlier runs, or as public rows."""
    total = used(folders)
    if data.handed:
        total = dict.fromkeys(COUNTED, 0.0) | total
        total["bytes_down"] += data.handed
        total["messages"] += data.n_clients
    return total


def _noted(recipe: Recipe, counts: np.ndarray) -> str:
    """What the recipe's transform says of the clients it meets, also as a warning."""
    note = "" if recipe.transform is None else recipe.transform.note(counts)
    if note:
        warn_once(f"{note}.")
    return note


def tests(data: Federation, on: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The data's own test set, which a server holds; None if there is none."""
    x, y = data.examples.test_x, data.examples.test_y
    return None if x is None or y is None else (x.to(on), y.to(on))
