"""From a configuration to live objects; the only place where both are known."""

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import nn

from unalike import rng
from unalike.algorithms.buffers import LocalBuffers
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.method import Method, compose
from unalike.algorithms.own import OwnMethod
from unalike.algorithms.warm_start import WarmStart
from unalike.engine.attacks import Attack, AttackedTransport
from unalike.engine.evaluate import Evaluator
from unalike.engine.faults import Faults, FaultyTransport
from unalike.engine.guard import Guard
from unalike.engine.loop import Loop, Transport
from unalike.engine.simulate import Engine, Simulation
from unalike.errors import ConfigError, UnalikeError
from unalike.federation.build import federate
from unalike.federation.data import TRAIN, Examples, Federation
from unalike.federation.datasets.base import Dataset
from unalike.federation.partition.base import Partitioner
from unalike.federation.shift.base import Shift
from unalike.models.base import Model
from unalike.models.vae import BetaVAE
from unalike.parts.optim import Adam, Optimizer, Sgd
from unalike.parts.privacy.accountant import Accountant
from unalike.parts.schedule import Participation
from unalike.recipe import Decay, Recipe
from unalike.run.config import Config, Named, tables
from unalike.run.device import device, prepare
from unalike.run.earlier import read_model
from unalike.run.environment import cores
from unalike.run.explain import check
from unalike.run.fit import fit, fit_autoencoder, misfit, outputs, refusal_of_vmap
from unalike.run.sections import EvaluationSettings, Local
from unalike.run.stages import NOTHING, Spent, spent
from unalike.run.topologies import TopologySettings
from unalike.settings import Settings
from unalike.task import Task
from unalike.tree import Params


@dataclass
class Experiment:
    """A run's live objects."""

    config: Config
    federation: Federation
    recipe: Recipe
    simulation: Simulation
    loop: Loop
    evaluator: Evaluator
    w: Params
    earlier: Spent = NOTHING  # before the first round
    attackers: tuple[int, ...] = ()
    accountant: Accountant | None = None  # of differential privacy, if there is any


def chosen(section: str, named: Named) -> Settings:
    """The settings object a naming table of the configuration stands for.

    Defaults are left unset, so that a dataset can refuse settings it has no use for.
    """
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
        seed=config.seed,
    )


def module(config: Config, examples: Examples) -> nn.Module:
    """The named model, built for the data."""
    model = cast(Model, chosen("model", config.model))
    try:
        return model.build(tuple(examples.x.shape[1:]), outputs(examples))
    except UnalikeError:
        raise
    except Exception as error:  # a module of the user's own may raise anything
        raise misfit(f"model '{config.model.name}'", examples, error) from error


def task(config: Config, examples: Examples) -> Task:
    """What is learned, with the named model."""
    what, track = f"model '{config.model.name}'", config.run.buffers != "drop"
    model = chosen("model", config.model)
    if isinstance(model, BetaVAE):
        return fit_autoencoder(model, examples, what)
    return fit(module(config, examples), examples, what, track)


def optimizer(local: Local) -> Optimizer:
    """The clients' optimizer."""
    if local.optimizer == "sgd":
        return Sgd(local.lr, local.momentum, local.weight_decay, local.nesterov)
    return Adam(local.lr, weight_decay=local.weight_decay)


def _decay(local: Local, rounds: int) -> Decay:
    """The learning rate's factor in round t."""
    kind = "none" if local.decay == "constant" else local.decay
    return Decay(kind, local.decay_rate, local.decay_every, rounds)


def _method(named: Named) -> tuple[str, Method]:
    """A method and its name; one of the user's own is that of its class."""
    made = cast(Method, chosen("method", named))
    if not isinstance(made, OwnMethod):
        return named.name, made
    return made.attribute, check(made.load(), made.settings, "method.settings", made.attribute)


def recipe(config: Config, made: Task, data: Federation) -> tuple[Recipe, Draft]:
    """The method with everything combined with it."""
    participation = Participation(config.participation.fraction, config.participation.number)
    participation.count(data.n_clients)  # refuse early
    draft = Draft(
        made,
        data.n_clients,
        data.examples.classes,
        tuple(data.examples.x.shape[1:]),
        config.rounds,
        opt=optimizer(config.local),
        epochs=config.local.epochs,
        participation=participation,
        topology=cast(TopologySettings, chosen("topology", config.topology)).build(),
        decay=_decay(config.local, config.rounds),
        read=read_model,
    )
    methods = [_method(n) for n in (config.method, *config.plus)]
    if config.run.buffers == "local":
        methods.append(("buffers", LocalBuffers()))
    draft = compose(draft, methods, config.topology.name)
    done = draft.recipe()
    if draft.before is not None:
        done = _stages_in_one(draft)
    n = draft.n_clients
    plan = done.schedule.plan(0, config.rounds, n, rng.key(0))  # impossible plans are refused here
    if int(plan.reply.sum()) < config.faults.min_replies:
        raise ConfigError(
            f"faults.min_replies is {config.faults.min_replies} but only {int(plan.reply.sum())} "
            "clients answer in a round; lower it or raise the participation."
        )
    done.topology.home(n)
    done.topology.links(0, n)
    if why := done.misfit(data.examples.x):
        raise ConfigError(why)
    return done, draft


def _stages_in_one(draft: Draft) -> Recipe:
    """The recipe of a draft with a stage before it, while a loop knows one recipe only."""
    done = draft.recipe()
    if draft.start == "model" and draft.before is not None:
        algorithm = WarmStart(cast(FedAvg, draft.algorithm()), draft.before.rounds)
        return replace(done, algorithm=algorithm)
    raise ConfigError(
        "method 'latent_disco' needs a trained autoencoder here: set method.encoder to "
        "the folder of a finished VAE run, or start it by 'unalike run', which runs "
        "that stage as well."
    )


def engine(config: Config, made: Task, examples: Examples, on: torch.device) -> Engine:
    """The named engine; 'auto' vectorizes where batching over clients works and pays."""
    kind = config.engine.kind
    if kind == "sequential" or (kind == "auto" and on.type == "cpu" and not made.dense):
        return "sequential"
    why = refusal_of_vmap(made, examples)
    if why and kind == "vectorized":
        raise ConfigError(
            f"the model cannot be vectorized over clients ({why}); set engine.kind = 'sequential'."
        )
    return "sequential" if why else "vectorized"


def experiment(config: Config) -> Experiment:
    """Everything a run needs, checked as far as it can be before the first round."""
    device(config.engine.device)  # refuse early: the data may take a while
    data = federation(config)
    return assemble(config, data, task(config, data.examples))


def assemble(config: Config, data: Federation, made: Task) -> Experiment:
    """A method, its clients and its judge, around data and a network."""
    on = device(config.engine.device)
    prepare(on, config.engine.tf32)
    _refuse_evaluation(config.evaluation, made)
    done, draft = recipe(config, made, data)
    key = rng.fold_in(rng.stream(config.seed, "init"), -2)  # client keys fold in 0, 1, ...
    w = made.network.given() if config.run.init == "given" else made.init(key)
    rows = data.pooled() if draft.pooled else data.rows(TRAIN)
    attack = cast(Attack, chosen("attack", config.attack))
    liars = attack.attackers(draft.n_clients, config.seed)
    simulation = Simulation(
        done,
        attack.poison(data.examples, rows.order[torch.isin(rows.owner, liars)]),
        rows,
        w,
        draft.n_clients,
        batch_size=min(config.local.batch_size, int(rows.sizes.max())),  # or padding fills memory
        seed=config.seed,
        engine=engine(config, made, data.examples, on),
        device=on,
        workers=config.engine.workers or cores(),
        graphs=config.engine.graphs,
        chunk=config.engine.chunk,
        decay=done.decay,
    )
    f = config.faults
    faults = Faults(f.drop, f.straggle, f.least_work, f.garbage, f.kind)
    transport: Transport = simulation
    if len(liars):
        transport = AttackedTransport(transport, attack, liars, config.seed)
    if faults.any:
        transport = FaultyTransport(transport, faults, config.seed)
    # Refusing whoever differs from the others would depend on data in a way no epsilon counts.
    explode = math.inf if done.guarantee else f.explode
    guard = Guard(explode, f.min_replies, f.too_few)
    loop = Loop(done, transport, config.rounds, config.seed, guard)
    judge = Evaluator(data, simulation, loop, config.seed, config.evaluation.ensemble)
    accountant = None
    if done.guarantee is not None:
        n = draft.n_clients
        accountant = Accountant(done.guarantee, done.schedule, config.rounds, n, loop.cohorts)
    return Experiment(
        config,
        data,
        done,
        simulation,
        loop,
        judge,
        simulation.w,
        spent(config, loop.asked),
        tuple(liars.tolist()),
        accountant,
    )


def _refuse_evaluation(settings: EvaluationSettings, made: Task) -> None:
    """Say early that a metric is asked for which this task does not have."""
    select, target = settings.select, settings.target
    if made.kind == "autoencoding":
        if select not in ("auto", "loss"):
            raise ConfigError(
                f"evaluation.select is '{select}', which an autoencoder does not have; use loss."
            )
        if settings.ensemble == "votes":
            raise ConfigError(
                "evaluation.ensemble is 'votes', but an autoencoder takes rows for no class; use "
                "probabilities (the mean of its terms) or weights."
            )
        return
    if select == "auroc" and made.kind == "characters":
        raise ConfigError(
            "evaluation.select is 'auroc', which is not measured for characters; "
            "use accuracy, loss or f1."
        )
    if target is not None and target > 1:
        raise ConfigError(
            f"evaluation.target is {target:g}, and an accuracy is at most 1; "
            "give it as a share, such as 0.9."
        )


def facts(made: Experiment) -> dict[str, Any]:
    """What was decided while building, for the record."""
    sim = made.simulation
    return {
        "engine": sim.engine,
        "workers": sim.workers if sim.engine == "sequential" else torch.get_num_threads(),
        "parameters": sum(made.w[n].numel() for n in sim.recipe.algorithm.task.network.weights),
        "buffers": sum(made.w[n].numel() for n in sim.recipe.algorithm.task.network.buffers),
        "clients": made.federation.n_clients,
        "new_clients": made.federation.n_new,
        "survey_bytes": made.loop.survey_bytes,
        "survey_reveals": [q.reveals for q in sim.recipe.mixing.survey],
        "attackers": list(made.attackers),
        "privacy": None if made.accountant is None else made.accountant.promise.meaning,
    }
