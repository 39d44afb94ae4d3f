"""Which way of computing clients is the fastest on this machine, found by trying them briefly.

A rule based on the configuration (``choice.py``) is right for the networks it was derived from. A
long run on a CPU compares it with the other ways on a part of a round's work, and departs from it
for one that is clearly faster. The choice becomes a setting of the run like any other, so a run
that is resumed or repeated from its own folder computes as before, whatever clocks or caches say by
then.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

import unalike
from unalike.engine.simulation.simulate import Simulation
from unalike.federation.data import Federation
from unalike.parts.participation.schedule import Plan
from unalike.run.autotuning import cache
from unalike.run.autotuning.cache import Seconds
from unalike.run.configuration.config import Config
from unalike.run.engines.choice import MANY, steps, total
from unalike.run.engines.refusals import refusal_of_tracing, refusal_of_vmap, refused
from unalike.run.experiment.build import assemble
from unalike.run.experiment.device import device
from unalike.run.folder.environment import cores
from unalike.tasks import Task

HEAVY = 3e12  # operations of a run that is worth a measurement with fewer steps, too,
SEVERAL = 200  # if it has so many
PATIENCE = 1.0  # seconds of a measurement, after each way has had its first turn
TURN = 0.15  # seconds of one turn
SLOW = 0.6  # seconds of a turn; where none is shorter, ways hardly differ
SIZING = 4  # turns at most that find out how much work takes so long
TURNS = 7  # at most
CLEARLY = 0.9  # of the rule's seconds: another way must be faster than that
CROWDED = 4  # cores from which on half of them may be faster than all
CROWD = 10_000  # registered clients, more of which take too long to set up twice

MEASURED = ("kind", "traced", "workers", "because")  # settings that a measurement decides

Clock = Callable[[], float]
Way = Callable[[], None]  # does the same work each time


class Decided(NamedTuple):
    """A way of computing, as settings of the section engine."""

    update: dict[str, Any]
    seconds: Seconds


def settled(
    config: Config, data: Federation, made: Task, clock: Clock = time.perf_counter
) -> Config:
    """The configuration with the way that is the fastest, if it is left to the run and it pays."""
    ways = candidates(config, data, made)
    if len(ways) < 2:
        return config
    decided = decide(config, data, made, ways, clock)
    if decided is None:
        return config
    return config.model_copy(update={"engine": config.engine.model_copy(update=decided.update)})


def candidates(config: Config, data: Federation, made: Task) -> dict[str, dict[str, Any]]:
    """Name -> settings of each way worth a try, the rule's first; empty if nothing is measured."""
    how = config.engine
    if how.kind != "auto" or not how.measure or device(how.device).type != "cpu":
        return {}
    if data.n_clients > CROWD or made.network.seeds_global or not _long(config, data, made):
        return {}
    together = not refused(refusal_of_vmap, made, data.examples)
    traced = how.traced and not refused(refusal_of_tracing, made, data.examples)
    groups = {"in groups": {"kind": "vectorized", "traced": traced}} if together else {}
    single = {"one by one": {"kind": "sequential", "traced": traced}}
    plain = {"one by one, untraced": {"kind": "sequential", "traced": False}} if traced else {}
    ways = {**groups, **single, **plain}
    if together and not traced and not made.network.dense:  # the rule computes these one by one
        ways = {**single, **groups}
    if not how.workers and cores() >= CROWDED:
        name, way = next(iter(ways.items()))
        ways[f"{name}, half the workers"] = {**way, "workers": cores() // 2}
    return ways


def _long(config: Config, data: Federation, made: Task) -> bool:
    """Whether a run is long enough that a measurement pays, by counts alone."""
    taken = total(config, data)
    weights = sum(p.numel() for p in made.network.given().values())
    each = 6 * weights * config.local.batch_size  # at the least: convolutions use theirs often
    return taken >= MANY or (taken >= SEVERAL and taken * each >= HEAVY)


def decide(
    config: Config,
    data: Federation,
    made: Task,
    ways: Mapping[str, dict[str, Any]],
    clock: Clock = time.perf_counter,
) -> Decided | None:
    """The fastest of the ways, known or measured; None if that cannot be said."""
    key = cache.digest(signature(config, data, made))
    seconds, source = cache.recall(key, list(ways)), "known from an earlier measurement: "
    if seconds is None:
        source = "measured: "
        try:
            found = {name: tried(config, data, made, way) for name, way in ways.items()}
            seconds = race(found, clock)
        except Exception:  # a module of the user's own may raise anything: the run will say what
            return None
        if seconds is None:
            return None
        cache.remember(key, seconds)
    best = fastest(seconds)
    told = ", ".join(f"{name} {1000 * s:.3g} ms" for name, s in seconds.items())
    why = f"{source}{told} for a round"
    return Decided({**ways[best], "because": why}, seconds)


def fastest(seconds: Seconds) -> str:
    """The first way, which is the rule's, or one that is clearly faster.

    >>> fastest({"in groups": 1.0, "one by one": 0.95}), fastest({"in groups": 1.0, "other": 0.5})
    ('in groups', 'other')
    """
    first, best = next(iter(seconds)), min(seconds, key=lambda way: seconds[way])
    return best if seconds[best] < CLEARLY * seconds[first] else first


def signature(config: Config, data: Federation, made: Task) -> dict[str, Any]:
    """What a measurement depends on: sizes in classes of powers of two."""
    each, cohort = steps(config, data)
    network, given = made.network, made.network.given()
    shapes = {name: tuple(w.shape) for name, w in given.items()}
    return {
        "processor": cache.processor(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "workers": config.engine.workers,
        "versions": (torch.__version__, unalike.__version__),
        "network": (type(made).__name__, str(network.module(given)), sorted(shapes.items())),
        "examples": (tuple(data.examples.x.shape[1:]), str(data.examples.x.dtype)),
        "batch": config.local.batch_size,
        "cohort": cohort.bit_length(),
        "steps": int(each.mean()).bit_length(),
        "optimizer": (config.local.optimizer, bool(config.local.momentum)),
        "methods": sorted([config.method.name, *(m.name for m in config.plus)]),
        "topology": config.topology.name,
        "compiled": config.engine.compiled and total(config, data) >= MANY,
    }


class Part(NamedTuple):
    """Which part of a round's work is timed."""

    clients: int
    share: float  # of the epochs of each


def part(rate: float, workers: int, cohort: int, each: float) -> Part:
    """About a turn's worth of work, from the seconds of one step while all workers compute.

    Clients are left out first, but for two of each worker, and then steps, but for four.

    >>> part(0.001, 2, 10, 60.0), part(0.02, 2, 10, 40.0), part(1e-6, 2, 10, 60.0)
    (Part(clients=4, share=0.625), Part(clients=4, share=0.1), Part(clients=10, share=1.0))
    """
    clients = min(cohort, max(2 * workers, int(TURN / (rate * each))))
    return Part(clients, min(1.0, max(TURN / (rate * each * clients), 4 / each)))


class Trial(NamedTuple):
    """One way, ready to compute any part of a round."""

    work: Callable[[Part], None]
    cohort: int
    each: float  # steps of a client in a round
    workers: int


def tried(config: Config, data: Federation, made: Task, way: dict[str, Any]) -> Trial:
    """An experiment of its own, of which nothing is kept."""
    engine = config.engine.model_copy(update={**way, "states": "memory"})
    run = config.run.model_copy(update={"init": "given"})  # drawing weights takes its time
    built = assemble(config.model_copy(update={"engine": engine, "run": run}), data, made)
    loop = built.course.enter(0, None)
    state = loop.begin(built.course.first(0, None))
    downs, n = loop.downs(state), built.course.transport.clients.n
    each, cohort = steps(config, data)

    def work(some: Part) -> None:
        ids = torch.arange(min(some.clients, n))  # numbers carry no meaning: any clients
        epochs = torch.full(ids.shape, config.local.epochs * some.share, dtype=torch.float64)
        plan = Plan(ids, torch.zeros_like(ids), torch.ones(len(ids), dtype=torch.bool), epochs)
        simulation: Simulation = built.simulation
        with simulation.lone():
            for _ in simulation.train(0, plan, downs, loop.home):
                pass

    workers = built.simulation.workers
    return Trial(work, min(cohort, n), max(1.0, float(each.mean())), workers)


def race(trials: Mapping[str, Trial], clock: Clock = time.perf_counter) -> Seconds | None:
    """The least seconds of each way for the same work, taking turns; None if it is too much."""
    first = next(iter(trials.values()))
    some = Part(min(first.workers, first.cohort), min(1.0, 2 / first.each))
    first.work(some)  # traces, and compiles where that is done
    for _ in range(SIZING):  # a short call tells little of what a step takes in a long one
        begun = clock()
        first.work(some)
        took = max(clock() - begun, 1e-6)
        if took > SLOW:
            return None
        rate = took / (some.clients * some.share * first.each)
        before, some = some, part(rate, first.workers, first.cohort, first.each)
        if took > TURN / 2 or some == before:
            break
    for trial in trials.values():
        trial.work(some)
    return timed({name: lambda t=t: t.work(some) for name, t in trials.items()}, clock)  # type: ignore[misc]


def timed(ways: Mapping[str, Way], clock: Clock = time.perf_counter) -> Seconds:
    """The least seconds of each, in turns until patience ends; who is far behind drops out."""
    best: Seconds = {}
    racing, end = list(ways), clock() + PATIENCE
    for _ in range(TURNS):
        for name in racing:
            begun = clock()
            ways[name]()
            best[name] = min(best.get(name, float("inf")), max(clock() - begun, 1e-9))
        ahead = min(best.values())
        racing = [name for name in racing if best[name] < 2 * ahead]
        if len(racing) < 2 or clock() > end:
            break
    return best
