"""The library in a few names: data in, a federation, a trained model out, without files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from unalike.algorithms.method import Method
from unalike.algorithms.own import acting
from unalike.errors import ConfigError
from unalike.federating import dataset, federate
from unalike.federation.anything import examples_of
from unalike.federation.data import Federation
from unalike.notebook import Bar
from unalike.report.outcome import scores
from unalike.result import Result
from unalike.run.autotuning.trials import settled
from unalike.run.configuration.config import Config, Named, parse
from unalike.run.configuration.explain import check
from unalike.run.configuration.graph_file import plain_pairs, undirected
from unalike.run.configuration.sections import Split
from unalike.run.experiment.build import assemble
from unalike.run.experiment.device import give_back
from unalike.run.experiment.fit import fit
from unalike.run.experiment.protected import hidden
from unalike.run.experiment.task import module, task
from unalike.run.folder.records import plain
from unalike.run.rounds import conclusion
from unalike.run.rounds import rounds as rounds_of
from unalike.run.saving.models import Keeper, models
from unalike.tasks import Task

SETTLED = {  # settings of a file that do not belong to ``train``, and why
    "data": "is set by the federation",
    "label": "is set by the federation",
    "client": "is set by the federation",
    "task": "is set by the federation",
    "partition": "is set by the federation",
    "shift": "is set by the federation",
    "split": "is set by the federation",
    "track": "belongs to runs with a folder, see start",
}
FILED = ("folder", "checkpoint_every")


def train(
    data: Any,
    /,
    model: nn.Module | str | Mapping[str, Any],
    method: Method | type[Method] | str | Mapping[str, Any] = "fedavg",
    *,
    rounds: int = 20,
    seed: int = 0,
    watch: Callable[[dict[str, Any]], None] | None = None,
    progress: bool = True,
    **settings: Any,
) -> Result:
    """Train a federation in memory and evaluate it as ``unalike run`` does.

    Args:
        data: A federation; or anything that ``federate`` takes, with its settings ``label``,
            ``client`` and ``task``, and ``partition`` (a name, a table or an object), ``split`` and
            ``shift``.
        model: A module, trained from its own weights and left unchanged; or the name of a model, or
            its table from a configuration file.
        method: A name, or the method's table: ``{"name": "fedprox", "mu": 0.1}``; or your own
            method, made with ``unalike.extend``: its class, or an object with other settings.
        rounds: Communication rounds.
        seed: Root of all random streams.
        watch: Called with the record of every round.
        progress: Whether a notebook shows a progress bar; elsewhere there is none.
        settings: The other tables of a configuration file: ``local={"lr": 0.1}``, ``plus=[...]``,
            which may include your own methods; ``topology`` may be a graph of networkx.

    Example:
        >>> import unalike
        >>> digits = unalike.federate(
        ...     unalike.dataset("digits"), unalike.partitioner("dirichlet", clients=5)
        ... )
        >>> result = unalike.train(digits, "logistic", "fedprox", rounds=2, local={"lr": 0.5})
        >>> 0.5 < result.summary["last"]["global"]["accuracy"]["mean"] < 1
        True
    """
    if watch is not None and not callable(watch):
        raise ConfigError(
            f"watch is called with the record of every round, so it cannot be {watch!r}; give a "
            "function."
        )
    federation = _federation(data, settings, seed)
    for name in FILED:
        if name in settings.get("run", {}):
            raise ConfigError(f"'run.{name}' belongs to runs with a folder, see start.")
    raw = {"method": method, "rounds": rounds, "seed": seed, **_drawn(settings)}
    own_methods = _taken(raw)
    examples = federation.examples
    if isinstance(model, nn.Module):
        config = parse({**raw, "run": {"init": "given", **settings.get("run", {})}})
        what, track = f"the model {type(model).__name__}", config.run.buffers != "drop"
        own: nn.Module = hidden(model, examples, what)
        learned: Task = fit(own, examples, what, track, kernels=config.engine.kernels)
    else:
        config = parse({**raw, "model": model})
        own, learned = module(config, examples), task(config, examples)
    config = _with(config, own_methods)
    made = assemble(settled(config, federation, learned), federation, learned)
    records, clients, keeper = [], [], Keeper(Path(), made, [])
    bar = Bar(made.course.rounds, progress)
    for step in rounds_of(made):
        records.append(plain(step.record))
        bar.update(
            len(records), f"round {len(records)} of {made.course.rounds} {scores(step.record)}"
        )
        if watch is not None:
            watch(records[-1])
        keeper.see(step)
        if step.clients is not None:
            clients.append(plain(step.clients))
    assert keeper.last is not None, "the last round is always evaluated"
    give_back()
    return Result(
        conclusion(made, records),
        records,
        clients,
        made,
        own,
        models(made, *keeper.last),
        keeper.selected,
    )


def _federation(data: Any, settings: dict[str, Any], seed: int) -> Federation:
    """The federation itself, or one made of data with the settings that are about data."""
    if isinstance(data, Federation):
        for name in settings:
            if name in SETTLED:
                raise ConfigError(f"'{name}' {SETTLED[name]}; leave it out.")
        return data
    if "track" in settings:
        raise ConfigError(f"'track' {SETTLED['track']}; leave it out.")
    reading = settings.pop("data", {})
    if not isinstance(reading, Mapping):
        raise ConfigError("'data' comes from what you train on; it may only say how that is read.")
    given = {k: settings.pop(k) for k in ("label", "client", "task") if k in settings}
    shares = check(Split, settings.pop("split", {}), "split")
    if isinstance(data, str):
        examples = examples_of(dataset(data, **reading), **given)
    else:
        examples = examples_of(data, **given, settings=reading)
    default = "natural" if examples.groups is not None else "dirichlet"
    return federate(
        examples,
        settings.pop("partition", default),
        settings.pop("shift", ()),
        validation=shares.validation,
        test=shares.test,
        new_clients=shares.new_clients,
        adapt=bool(settings.get("evaluation", {}).get("new_client_steps")),
        stratified=shares.stratified,
        seed=seed,
    )


def _drawn(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a graph of networkx, or arrays and tuples, as the table it amounts to."""
    given = settings.get("topology")
    if hasattr(given, "edges"):
        given = {"name": "graph", "edges": undirected(given, "the graph in topology").edges}
    if not isinstance(given, Mapping) or isinstance(given.get("edges", ""), str):
        return dict(settings)
    return {**settings, "topology": {**given, "edges": plain_pairs(given["edges"])}}


def _taken(raw: dict[str, Any]) -> dict[int, Named]:
    """Take methods out that are objects or classes; 0 is the method, from 1 on what is combined."""
    named = [raw["method"], *(raw.get("plus") or [])]
    taken: dict[int, Named] = {}
    for i, value in enumerate(named):
        if isinstance(value, type) and issubclass(value, Method):
            value = check(acting(value), {}, "method", value.__name__)
        if isinstance(value, Method):
            acting(type(value))
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
