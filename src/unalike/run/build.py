"""From a configuration to live objects; the only place where both are known."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch

from unalike import rng
from unalike.algorithms.method import Draft, Method, compose
from unalike.engine.evaluate import Evaluator
from unalike.engine.faults import Faults, FaultyTransport
from unalike.engine.guard import Guard
from unalike.engine.loop import Loop, Transport
from unalike.engine.simulate import Engine, Simulation
from unalike.errors import ConfigError
from unalike.federation.build import federate
from unalike.federation.data import TRAIN, Examples, Federation
from unalike.federation.datasets.base import Dataset
from unalike.federation.partition.base import Partitioner
from unalike.federation.shift.base import Shift
from unalike.models.base import Model
from unalike.network import Network
from unalike.parts.optim import Adam, Optimizer, Sgd
from unalike.parts.schedule import Participation
from unalike.recipe import Recipe
from unalike.run.config import Config, Local, Named, tables
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


def chosen(section: str, named: Named) -> Settings:
    """The settings object a naming table of the configuration stands for."""
    return tables()[section][named.name](**named.settings)


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


def task(config: Config, examples: Examples) -> Task:
    """The network for the data, tried on one example before anything long begins."""
    outputs = 1 if examples.kind == "binary" else examples.classes
    shape = tuple(examples.x.shape[1:])
    module = cast(Model, chosen("model", config.model)).build(shape, outputs)
    made = Task(Network(module, track_statistics=config.run.buffers != "drop"), examples.kind)
    try:
        out = made.logits(made.network.given(), examples.x[:2])
        made.per_example(out, examples.y[:2])
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"model '{config.model.name}' cannot be used on '{config.data.name}' (examples of "
            f"shape {shape}, {outputs} outputs): {reason}."
        ) from error
    if out.shape[-1] != outputs:
        raise ConfigError(
            f"model '{config.model.name}' gives {out.shape[-1]} outputs, "
            f"'{config.data.name}' needs {outputs}."
        )
    return made


def optimizer(local: Local) -> Optimizer:
    """The clients' optimizer."""
    if local.optimizer == "sgd":
        if local.nesterov and not local.momentum:
            raise ConfigError("local.nesterov needs local.momentum above 0.")
        return Sgd(local.lr, local.momentum, local.weight_decay, local.nesterov)
    if local.momentum:
        raise ConfigError("local.momentum belongs to SGD; with Adam set it to 0.")
    return Adam(local.lr, weight_decay=local.weight_decay)


def decay(local: Local, rounds: int) -> Callable[[int], float]:
    """The learning rate's factor in round t."""
    if local.decay == "exponential":
        return lambda t: float(local.decay_rate ** (t // local.decay_every))
    if local.decay == "cosine":
        return lambda t: (1 + math.cos(math.pi * t / rounds)) / 2
    return lambda t: 1.0


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
    )
    named = [config.method, *config.plus]
    methods = [(n.name, cast(Method, chosen("method", n))) for n in named]
    draft = compose(draft, methods, config.topology.name)
    if config.run.buffers == "local":
        draft = _private_buffers(draft, made)
    done = draft.recipe()
    n = draft.n_clients
    done.schedule.plan(0, config.rounds, n, rng.key(0))  # impossible plans are refused here
    done.topology.home(n)
    done.topology.links(0, n)
    if "loss" in done.needs and config.method.name == "fedevg":
        raise ConfigError(
            "the chosen weights need the clients' losses of a received model, "
            "but method 'fedevg' sends none."
        )
    return done, draft


def _private_buffers(draft: Draft, made: Task) -> Draft:
    from dataclasses import replace

    if draft.make is not None:
        raise ConfigError(
            "run.buffers = 'local' works with methods built on FedAvg's client only; "
            "use 'global' or 'drop'."
        )
    names = frozenset(made.network.buffers)
    return replace(draft, private=replace(draft.private, names=draft.private.names | names))


def device(name: str) -> torch.device:
    """The device, if this machine has it."""
    try:
        found = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"engine.device '{name}' is unknown; use cpu, cuda or cuda:N.") from None
    if found.type not in ("cpu", "cuda"):
        raise ConfigError(f"engine.device '{name}' is not supported; use cpu, cuda or cuda:N.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"engine.device is '{name}' but this machine has {torch.cuda.device_count()} CUDA "
            "devices; use cpu."
        )
    return found


def engine(config: Config, made: Task, on: torch.device) -> Engine:
    """The named engine; 'auto' vectorizes where batching over clients was measured to pay."""
    if config.engine.kind != "auto":
        return config.engine.kind
    return "vectorized" if on.type == "cuda" or made.dense else "sequential"


def experiment(config: Config) -> Experiment:
    """Everything a run needs, checked as far as it can be before the first round."""
    on = device(config.engine.device)
    data = federation(config)
    made = task(config, data.examples)
    done, draft = recipe(config, made, data)
    key = rng.fold_in(rng.stream(config.seed, "init"), -2)  # client keys fold in 0, 1, ...
    w = made.network.given() if config.run.init == "given" else made.init(key)
    simulation = Simulation(
        done,
        data.examples,
        data.pooled() if draft.pooled else data.rows(TRAIN),
        w,
        draft.n_clients,
        batch_size=config.local.batch_size,
        seed=config.seed,
        engine=engine(config, made, on),
        device=on,
        workers=config.engine.workers or len(os.sched_getaffinity(0)),
        chunk=config.engine.chunk,
        decay=decay(config.local, config.rounds),
    )
    f = config.faults
    faults = Faults(f.drop, f.straggle, f.least_work, f.garbage, f.kind)
    transport: Transport = simulation
    if faults.any:
        transport = FaultyTransport(simulation, faults, config.seed)
    guard = Guard(f.explode, f.min_replies, f.too_few)
    loop = Loop(done, transport, config.rounds, config.seed, guard)
    judge = Evaluator(data, simulation, loop, config.seed)
    return Experiment(config, data, done, simulation, loop, judge, simulation.w)


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
    }
