"""The library in a few names: data in, a federation, a trained model out, without files."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn

from unalike import tree
from unalike.algorithms.method import Method
from unalike.engine.course import Progress
from unalike.errors import ConfigError
from unalike.federation.data import Federation
from unalike.federation.datasets.base import Dataset
from unalike.federation.partition.base import Partitioner
from unalike.run.build import Experiment, assemble, module, task
from unalike.run.config import Config, Named, parse, tables
from unalike.run.explain import check
from unalike.run.fit import fit
from unalike.run.folder import plain
from unalike.run.rounds import conclusion
from unalike.run.rounds import rounds as rounds_of
from unalike.settings import look_up
from unalike.tasks import Task
from unalike.tree import Params

SETTLED = {  # settings of a file that do not belong to ``train``, and why
    "data": "is settled by the federation",
    "partition": "is settled by the federation",
    "shift": "is settled by the federation",
    "split": "is settled by the federation",
    "track": "belongs to runs with a folder, see start",
}
FILED = ("folder", "checkpoint_every")


@dataclass(frozen=True)
class Result:
    """A finished training."""

    summary: dict[str, Any]  # as summary.json: last and selected round, totals
    rounds: list[dict[str, Any]]  # as rounds.jsonl
    clients: list[dict[str, Any]]  # as clients.jsonl
    model: nn.Module | None  # the shared model; None if only the clients hold whole models
    _made: Experiment = field(repr=False)
    _progress: Progress = field(repr=False)
    _module: nn.Module = field(repr=False)

    def personal(self, client: int) -> nn.Module:
        """The model that a client is judged by on its own data."""
        made, n = self._made, self._made.simulation.clients.n
        if not 0 <= client < n:
            raise ConfigError(f"there is no client {client}; choose 0 to {n - 1}.")
        loop = made.course.loop
        down = tree.row(loop.downs(self._progress.state), int(loop.home[client]))
        kept = tree.row(made.simulation.states.get(torch.tensor([client])), 0)
        w = made.recipe.algorithm.personal(down, kept.mine)
        if w is None:
            assert self.model is not None, "a client without a model of its own uses the shared one"
            return self.model
        return _loaded(self._module, w)


def train(
    federation: Federation,
    model: nn.Module | str | Mapping[str, Any],
    method: Method | type[Method] | str | Mapping[str, Any] = "fedavg",
    *,
    rounds: int = 20,
    seed: int = 0,
    watch: Callable[[dict[str, Any]], None] = lambda record: None,
    **settings: Any,
) -> Result:
    """Train a federation and judge it as ``unalike run`` does, in memory.

    Args:
        federation: Made by ``federate``.
        model: A module, trained from the weights it comes with and left as it is; or the name of a
            model, or its table of a configuration file.
        method: A name, or the method's table: ``{"name": "fedprox", "mu": 0.1}``; or one of your
            own, made with ``unalike.extend``: its class, or an object with other settings.
        rounds: Communication rounds.
        seed: Root of all random streams.
        watch: Called with the record of every round.
        settings: The other tables of a configuration file: ``local={"lr": 0.1}``, ``plus=[...]``,
            which may hold methods of your own, too.

    Example:
        >>> import unalike
        >>> digits = unalike.federate(
        ...     unalike.dataset("digits"), unalike.partitioner("dirichlet", clients=5)
        ... )
        >>> result = unalike.train(digits, "logistic", "fedprox", rounds=2, local={"lr": 0.5})
        >>> 0.5 < result.summary["last"]["global"]["accuracy"]["mean"] < 1
        True
    """
    for name in settings:
        if name in SETTLED:
            raise ConfigError(f"'{name}' {SETTLED[name]}; leave it out.")
    for name in FILED:
        if name in settings.get("run", {}):
            raise ConfigError(f"'run.{name}' belongs to runs with a folder, see start.")
    raw = {"method": method, "rounds": rounds, "seed": seed, **settings}
    own_methods = _taken(raw)
    examples = federation.examples
    if isinstance(model, nn.Module):
        config = parse({**raw, "run": {"init": "given", **settings.get("run", {})}})
        what, track = f"the model {type(model).__name__}", config.run.buffers != "drop"
        own: nn.Module = model
        learned: Task = fit(model, examples, what, track, kernels=config.engine.kernels)
    else:
        config = parse({**raw, "model": model})
        own, learned = module(config, examples), task(config, examples)
    config = _with(config, own_methods)
    made = assemble(config, federation, learned)
    records, clients = [], []
    for step in rounds_of(made):
        progress = step.progress
        records.append(plain(step.record))
        watch(records[-1])
        if step.clients is not None:
            clients.append(plain(step.clients))
    w = made.course.model(progress)
    return Result(
        conclusion(made, records),
        records,
        clients,
        None if w is None else _loaded(own, w),
        made,
        progress,
        own,
    )


def _taken(raw: dict[str, Any]) -> dict[int, Named]:
    """Take methods out that are objects or classes; 0 is the method, from 1 on what is combined."""
    named = [raw["method"], *(raw.get("plus") or [])]
    taken: dict[int, Named] = {}
    for i, value in enumerate(named):
        if isinstance(value, type) and issubclass(value, Method):
            value = check(value, {}, "method", value.__name__)
        if isinstance(value, Method):
            settings = value.model_dump()
            taken[i] = Named(name=type(value).__name__, settings=settings, given=value)
            named[i] = "fedavg"  # as good as any until it is put back
    raw["method"] = named[0]
    if len(named) > 1:
        raw["plus"] = named[1:]
    return taken


def _with(config: Config, taken: dict[int, Named]) -> Config:
    """The configuration with those methods in their places."""
    named = [taken.get(i, n) for i, n in enumerate([config.method, *config.plus])]
    return config.model_copy(update={"method": named[0], "plus": named[1:]})


def dataset(name: str, **settings: Any) -> Dataset:
    """A named dataset with its settings, for ``federate``; ``unalike list`` shows the names."""
    return cast(Dataset, _chosen("data", name, settings))


def partitioner(name: str, **settings: Any) -> Partitioner:
    """A named partitioner with its settings, for ``federate``."""
    return cast(Partitioner, _chosen("partition", name, settings))


def _chosen(kind: str, name: str, settings: Mapping[str, Any]) -> Any:
    return check(look_up(kind, name, tables()[kind]), settings, kind, name)


def _loaded(like: nn.Module, w: Params) -> nn.Module:
    """A copy of a module with these weights, in evaluation mode."""
    own = copy.deepcopy(like)
    own.load_state_dict({k: v.detach().cpu() for k, v in w.items()}, strict=False)
    return own.eval()
