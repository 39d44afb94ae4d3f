"""Seconds per round and peak memory of both engines and of a bare PyTorch loop, side by side.

    python benchmarks/engines.py [--device cuda] [--rounds 5] [--only NAME ...] [--sides bare fast]
        [--sizes dirichlet] [--method superfed_mm]

Random data, so nothing is downloaded: speed does not depend on the pixels. Each side is a process
of its own, and they take turns round by round, so that whatever else the machine does meets all of
them. Seconds are medians after a warm-up round, evaluation not counted; memory is the most that a
side's process ever had (on a GPU, that PyTorch had allocated there), the libraries and the data
included. ``bare`` is what one would write without a library, on one thread, for FedAvg whatever the
method. "fast" is what ``auto`` takes: on a CPU groups of clients whose steps are traced, on a GPU
steps recorded as CUDA graphs. "traced" is the same for one client at a time, on a CPU; "sequential"
and "vectorized" have every step launched by Python.
``combine_s`` is the part of a round in which servers hear their neighbours, ``beyond_s`` all of it
but the training of the clients.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from unalike import rng
from unalike.algorithms.draft import Draft
from unalike.algorithms.table import METHODS
from unalike.engine.graph import combine as combining
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.engine.simulation.simulate import Simulation
from unalike.federation.data import Examples, Rows
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.graphs import Random
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation
from unalike.parts.topology import Ring, Star, Topology
from unalike.run.experiment.device import prepare
from unalike.tasks import TASKS

LR = 0.05


class Work(NamedTuple):
    """What is trained, by how many."""

    model: str
    shape: tuple[int, ...]
    clients: int
    each: int  # examples of a client
    cohort: int
    batch: int
    classes: int = 10
    settings: dict[str, Any] = {}
    topology: Topology = Star()
    kind: str = "multiclass"


IMAGE = (1, 28, 28)
WORK = {
    "dense-10": Work("mcmahan_2nn", IMAGE, 100, 600, 10, 10),
    "dense-100": Work("mcmahan_2nn", IMAGE, 1000, 60, 100, 10),
    "cnn-10": Work("mcmahan_cnn", IMAGE, 100, 200, 10, 50),
    "lstm-10": Work("stacked_lstm", (80,), 100, 40, 10, 10, 80, {"hidden": 128}, kind="characters"),
    "dense-1000": Work("mcmahan_2nn", IMAGE, 1000, 20, 1000, 10),
    "ring-1000": Work("mcmahan_2nn", IMAGE, 1000, 20, 1000, 10, topology=Ring()),
    "stateful-100": Work("mcmahan_2nn", IMAGE, 100, 600, 100, 10),
    "tiny-100": Work("mlp", (16,), 1000, 10, 100, 10),
    "logistic-10": Work("logistic", (13,), 10, 60, 10, 10, 2),
    "wide-10": Work("mlp", IMAGE, 100, 60, 10, 10, 10, {"hidden": [1200, 1000]}),
    "normed-10": Work("mlp", IMAGE, 100, 600, 10, 10, 10, {"batch_norm": True}),
    "regular-1000": Work(
        "mcmahan_2nn", IMAGE, 1000, 20, 1000, 10, topology=Random("regular", degree=8)
    ),
}


class Options(NamedTuple):
    """Where, and with how much of the machine."""

    device: str
    threads: int
    sizes: (
        str  # equal, or dirichlet: as of clients whose classes are Dirichlet(0.3), as many in all
    )
    method: str = "fedavg"  # of all sides but the bare one


Round = Callable[[int], dict[str, float]]  # from its number to more of its times


def data(work: Work) -> tuple[torch.Tensor, torch.Tensor]:
    generator, n = torch.Generator().manual_seed(0), work.clients * work.each
    if work.kind == "characters":
        x = torch.randint(0, work.classes, (n, *work.shape), generator=generator)
    else:
        x = torch.rand(n, *work.shape, generator=generator)
    return x, torch.randint(0, work.classes, (n,), generator=generator)


def starts(work: Work, options: Options) -> np.ndarray:
    """Where each client's examples begin, and where the last one's end."""
    if options.sizes == "equal":
        return np.arange(work.clients + 1) * work.each
    shares = np.random.default_rng(0).dirichlet([0.3] * work.clients, size=10).mean(0)
    total = work.clients * work.each
    return np.concatenate([[0], np.cumsum(1 + np.floor(shares * (total - work.clients)))]).astype(
        int
    )


def bare(work: Work, options: Options) -> Round:
    """A loop over clients with a module, an optimizer and nothing else."""
    torch.set_num_threads(1)
    device = torch.device(options.device)
    x, y = (part.to(device) for part in data(work))
    module = MODELS[work.model](**work.settings).build(work.shape, work.classes).to(device)
    w = list(module.parameters())
    first = [v.detach().clone() for v in w]
    ring = work.topology != Star()  # any other graph costs a bare loop more
    models = [first] * (work.clients if ring else 1)  # those of the servers
    start_of = starts(work, options).tolist()

    def trained(client: int, start: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            for v, s in zip(w, start, strict=True):
                v.copy_(s)
        optimizer = torch.optim.SGD(w, LR)
        begin, end = start_of[client : client + 2]
        rows = begin + torch.randperm(end - begin)
        for batch in rows.to(device).split(work.batch):
            optimizer.zero_grad()
            cross_entropy(module(x[batch]), y[batch]).backward()
            optimizer.step()
        return [v.detach() for v in w]

    def star(cohort: list[int]) -> None:
        total = [torch.zeros_like(v) for v in first]
        for client in cohort:
            for t, v in zip(total, trained(client, models[0]), strict=True):
                t.add_(v, alpha=1 / len(cohort))
        models[0] = total

    def circle(cohort: list[int]) -> float:
        for client in cohort:
            models[client] = [v.clone() for v in trained(client, models[client])]
        begun, n = time.perf_counter(), work.clients
        heard = [(models[i - 1], models[i], models[(i + 1) % n]) for i in range(n)]
        models[:] = [[(a + b + c) / 3 for a, b, c in zip(*three, strict=True)] for three in heard]
        return time.perf_counter() - begun

    def one(t: int) -> dict[str, float]:
        cohort = torch.randperm(work.clients)[: work.cohort].tolist()
        if ring:
            return {"combine": circle(cohort)}
        star(cohort)
        return {}

    return one


def ours(engine: Any, fast: bool, native: bool, work: Work, options: Options) -> Round:
    """The product, without its evaluation, records and checkpoints."""
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    network = Network(MODELS[work.model](**work.settings).build(work.shape, work.classes))
    prepare(device, tf32=False, dense=network.dense)
    task = TASKS[work.kind](network)
    draft = Draft(
        task,
        work.clients,
        work.classes,
        work.shape,
        rounds=10**6,
        opt=Sgd(LR),
        batch_size=work.batch,
        participation=Participation(number=work.cohort),
        topology=work.topology,
    )
    # SuPerFed mixes from the first round on: those before would be FedAvg's.
    settings = {"start": 0.0} if options.method.startswith("superfed") else {}
    recipe = METHODS[options.method](**settings).change(draft).recipe()
    simulation = Simulation(
        recipe,
        Examples(*data(work), work.classes, work.kind),
        Rows(torch.arange(work.clients * work.each), starts(work, options)),
        task.init(rng.key(0)),
        work.clients,
        engine=engine,
        device=device,
        workers=options.threads,
        graphs=fast,
        traced=fast,
        native=native,
    )
    loop = Loop(recipe, simulation, range(10**6), 0, Guard())
    state = loop.begin(simulation.w)
    combine, took = combining.combine, dict[str, float]()

    def timed(*args: Any) -> Any:
        begun = time.perf_counter()
        out = combine(*args)
        took["combine"] = time.perf_counter() - begun
        return out

    combining.combine = timed
    train = simulation.train

    def watched(*args: Any) -> Iterator[Any]:
        parts = train(*args)
        while True:
            begun = time.perf_counter()
            part = next(parts, None)
            took["training"] = took.get("training", 0.0) + time.perf_counter() - begun
            if part is None:
                return
            yield part

    simulation.train = watched  # type: ignore[method-assign]

    def one(t: int) -> dict[str, float]:
        nonlocal state
        took.clear()
        begun = time.perf_counter()
        with simulation.lone():
            state, _ = loop.advance(state, t)
        if len(state.mixing) > 1:
            took["beyond"] = time.perf_counter() - begun - took["training"]
        return took

    return one


SIDES: dict[str, tuple[Callable[..., Round], tuple[Any, ...]]] = {
    "bare": (bare, ()),
    "fast": (ours, ("vectorized", True, True)),  # what "auto" is: traced and compiled, or recorded
    "scripted": (ours, ("vectorized", True, False)),  # the same where there is no compiler
    "traced": (ours, ("sequential", True, True)),  # what "sequential" means on a CPU by default
    "sequential": (ours, ("sequential", False, False)),
    "vectorized": (ours, ("vectorized", False, False)),
}


def serve(side: str, work: str, options: Options, door: Connection) -> None:
    """One side's process: a round and its times for every number that comes in; then its memory."""
    make, more = SIDES[side]
    one, cuda = make(*more, WORK[work], options), options.device.startswith("cuda")
    door.send("ready")
    while (t := door.recv()) is not None:
        begun = time.perf_counter()
        took = one(t)
        if cuda:
            torch.cuda.synchronize()
        door.send({"": time.perf_counter() - begun, **took})
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    door.send((torch.cuda.max_memory_allocated() if cuda else rss) / 2**20)


def hear(door: Connection, side: str, work: str) -> Any:
    try:
        return door.recv()
    except EOFError:
        sys.exit(f"The process of {side!r} on {work!r} ended early; its error is above.")


def measure(work: str, sides: list[str], options: Options, rounds: int) -> dict[str, Any]:
    """All sides of one kind of work, in turns."""
    context, doors = multiprocessing.get_context("spawn"), dict[str, Any]()
    for side in sides:
        doors[side], theirs = context.Pipe()
        context.Process(target=serve, args=(side, work, options, theirs), daemon=True).start()
        theirs.close()  # the last end but its own: a process that dies is heard of, not waited for
    for side in sides:
        hear(doors[side], side, work)
    times = {side: list[dict[str, float]]() for side in sides}
    for t in range(rounds + 1):
        for side, door in doors.items():
            door.send(t)
            times[side].append(hear(door, side, work))
    for door in doors.values():
        door.send(None)
    peak = {side: round(hear(door, side, work)) for side, door in doors.items()}

    def median(side: str, name: str) -> float:
        return statistics.median(took[name] for took in times[side][1:])

    took = {side: median(side, "") for side in sides}
    line: dict[str, Any] = {f"{side}_s": round(s, 4) for side, s in took.items()}
    line |= {f"bare_over_{side}": round(took["bare"] / took[side], 2) for side in sides[1:]}
    for name in ("combine", "beyond"):
        having = [side for side in sides if name in times[side][0]]
        line |= {f"{side}_{name}_s": round(median(side, name), 4) for side in having}
    return {**line, **{f"{side}_peak_mib": m for side, m in peak.items()}}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--device", default="cpu")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--sizes", choices=["equal", "dirichlet"], default="equal")
    options.add_argument("--workers", type=int, default=torch.get_num_threads())
    options.add_argument("--only", nargs="+", choices=WORK, default=list(WORK), metavar="NAME")
    options.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), metavar="SIDE")
    options.add_argument("--method", choices=METHODS, default="fedavg", metavar="METHOD")
    chosen = options.parse_args()
    cuda = chosen.device.startswith("cuda")
    where = chosen.device, chosen.workers, chosen.sizes, chosen.method
    sides = [s for s in chosen.sides if not (cuda and s in ("traced", "scripted"))]
    for work in chosen.only:
        found = measure(work, sides, Options(*where), chosen.rounds)
        kind = {"work": work, "sizes": chosen.sizes, "device": chosen.device}
        kind |= {"method": chosen.method}
        print(json.dumps({**kind, **found}), flush=True)


if __name__ == "__main__":
    main()
