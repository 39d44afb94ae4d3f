"""From a configuration to live objects; the only place where both are known."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch

from unalike import own_code, rng
from unalike.engine.attacks import Attack, AttackedTransport
from unalike.engine.client.states import OnDisk
from unalike.engine.course import Course
from unalike.engine.evaluation.judging import Exam
from unalike.engine.evaluation.server import Evaluator
from unalike.engine.faults import Faults, FaultyTransport
from unalike.engine.simulation.distributed import Distributed
from unalike.engine.simulation.ranks import Ranks
from unalike.engine.simulation.simulate import Simulation
from unalike.engine.transport import Transport
from unalike.errors import ConfigError, warn_once
from unalike.federation.build import federate
from unalike.federation.data import ADAPT, TRAIN, Federation
from unalike.federation.datasets.base import Dataset
from unalike.federation.partition.base import Partitioner
from unalike.federation.shift.base import Shift
from unalike.parts.privacy.accountant import Accountant
from unalike.recipe import Program, Recipe
from unalike.run.configuration.config import Config, chosen
from unalike.run.engines.choice import engine
from unalike.run.experiment.cadence import cadence
from unalike.run.experiment.counting import work
from unalike.run.experiment.device import device, prepare
from unalike.run.experiment.idle import note_idle
from unalike.run.experiment.live import Experiment
from unalike.run.experiment.program import guard_of, program, releases
from unalike.run.experiment.reference import weights_of
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task
from unalike.run.extractor import extractor
from unalike.run.folder.earlier_runs import COUNTED, used
from unalike.run.folder.environment import cores
from unalike.tasks import NetworkTask, Task


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
        stratified=config.split.stratified,
        seed=config.seed,
    )


Rows = tuple[torch.Tensor, torch.Tensor]  # features and labels
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
    if judging.new_client_steps:
        _refuse_nobody(data)
    stages, draft = program(config, made, Shape.of(data))
    note_idle(config, draft, stages)
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
    last, transport = stages[-1].recipe, _transport(simulation, config, attack, liars, ranks)
    course = Course(stages, transport, config.seed, guard_of(config, stages), simulation.w)
    return Experiment(
        config,
        data,
        simulation,
        course,
        _evaluator(config, made, course, tests(data, on), simulation),
        choice.why,
        _before(data, draft.builds_on),
        tuple(liars.tolist()),
        _accountant(stages, course),
        weights_of(judging.reference, last, simulation.w) if judging.reference else None,
        attack,
        _noted(last, data.counts.sum(0)[None] if draft.pooled else data.counts),
        cadence(config, work(config, data, draft, last, simulation.w), course.rounds),
    )


def _refuse_nobody(data: Federation) -> None:
    """Steps of new clients need such clients, and rows for them to take steps on."""
    asked = "evaluation.new_client_steps are local steps of new clients"
    if not data.n_new:
        raise ConfigError(
            f"{asked}, and no client is held out; set split.new_clients or leave them out."
        )
    if not data.sizes(ADAPT).any():
        raise ConfigError(
            f"{asked}, and those of this federation have no rows to train on; make it with "
            "adapt = True or leave them out."
        )


def _transport(
    simulation: Simulation,
    config: Config,
    attack: Attack,
    liars: torch.Tensor,
    ranks: Ranks | None,
) -> Transport:
    """The simulated clients, with other processes, liars and faults between them and servers."""
    f, transport = config.faults, cast(Transport, simulation)
    faults = Faults(f.drop, f.straggle, f.least_work, f.garbage, f.kind)
    if ranks is not None:
        transport = Distributed(simulation, ranks, sums=not len(liars) and not faults.any)
    if len(liars):
        transport = AttackedTransport(transport, attack, liars, config.seed)
    if faults.any:
        transport = FaultyTransport(transport, faults, config.seed)
    return transport


def _evaluator(
    config: Config, made: Task, course: Course, own: Rows | None, simulation: Simulation
) -> Evaluator:
    """Who judges the models of every stage, with the data's ``own`` test set if there is one."""
    judging, late = config.evaluation, config.participation.late
    metric = made.headline if judging.select == "auto" else judging.select
    by = metric if judging.line else ""
    return Evaluator(course, own, config.seed, judging.ensemble, by, late, simulation.each)


def _accountant(stages: Program, course: Course) -> Accountant | None:
    """Of the rounds in which updates are released under a promise of privacy, if there are any."""
    released, promised = releases(stages)
    if promised is None or promised.guarantee is None:
        return None
    loop = course.loop
    return Accountant(promised.guarantee, promised.schedule, released, loop.n, loop.cohorts)


def _before(data: Federation, folders: Sequence[str]) -> dict[str, float]:
    """What was sent and computed before the first round: by earlier runs, or as public rows."""
    total = used(folders)
    if data.handed:
        total = dict.fromkeys(COUNTED, 0) | total
        total["bytes_down"] += data.handed
        total["messages"] += data.n_clients
    return total


def _noted(recipe: Recipe, counts: np.ndarray) -> str:
    """What the recipe's transform says of the clients it meets, also as a warning."""
    note = "" if recipe.transform is None else recipe.transform.note(counts)
    if note:
        warn_once(f"{note}.")
    return note


def tests(data: Federation, on: torch.device) -> Rows | None:
    """The data's own test set, which a server holds; None if there is none."""
    x, y = data.examples.test_x, data.examples.test_y
    return None if x is None or y is None else (x.to(on), y.to(on))
