"""Steps handed to a compiler are the steps of a loop; merging their kernels needs a GPU."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pytest
import torch
from federations import SIZES, Played, composed, network_task, play, same, sampled
from torch import Tensor, fx
from torch.func import vmap

from unalike import rng, tree
from unalike.engine.compiled import fusing
from unalike.engine.compiled.calls import Calls
from unalike.engine.compiled.cuda_graphs import Graphs
from unalike.engine.compiled.fusing import Fused, Programs
from unalike.engine.compiled.recording import recorded
from unalike.engine.simulation.simulate import Simulation
from unalike.errors import RunWarning
from unalike.parts.optim import Adam
from unalike.run.configuration.config import parse
from unalike.run.engines import choice
from unalike.run.experiment.build import experiment

KINDS = ["fedavg", "fedprox", "scaffold", "superfed_mm", "term", "lg_fedavg", "fedaug", "fedevg"]


class Verbatim:
    """A compiler that changes nothing, and counts."""

    def __init__(self) -> None:
        self.compiled = 0

    def __call__(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        self.compiled += 1
        return graph


def numbers(played: Played) -> list[Tensor]:
    """All that servers and clients have in the end."""
    both = played.states[-1].stack, dict(sorted(played.kept[-1].items()))
    return [x for x in tree.leaves(both) if isinstance(x, Tensor)]


def fused(monkeypatch: pytest.MonkeyPatch, compiler: Any, clients: int, way: str = "loop") -> None:
    """From here on simulations compile the steps of calls of so many clients."""
    prepare, programs = Simulation.__init__, Programs(compiler)
    monkeypatch.setattr(fusing, "BUSY", 0.0)

    def prepared(self: Simulation, *args: Any, **options: Any) -> None:
        prepare(self, *args, **options)
        self._chunks = lambda plan, *_: iter(
            [[torch.arange(len(plan.ids))]]
        )  # as on a GPU: one call
        self.fuse = partial(Fused, clients=clients, programs=programs)
        if way == "graphs":
            self.repeat = Graphs(lambda body: body)
        if way == "calls":
            self.calls = Calls(lambda body: body, torch.device("cpu"))

    monkeypatch.setattr(Simulation, "__init__", prepared)


def trained(method: str) -> Played:
    """Three rounds in double precision."""
    task, data = network_task("dense", torch.float64)
    special = {"fedevg": {"per_class": 2}, "lg_fedavg": {"step": "sequential"}}
    parts = {"opt": Adam(0.01)} if method in ("fedavg", "lg_fedavg") else {}
    chosen = method, special.get(method, {})
    recipe = composed(task, data, chosen, rounds=3, **sampled(1.0, 2.0), **parts)
    w = tree.map(torch.Tensor.double, task.init(rng.key(7)))
    return play(recipe, data, 3, w, batch_size=3)


@cache
def looped(method: str) -> list[Tensor]:
    """What no compiler has seen; to be asked for before ``fused``."""
    return numbers(trained(method))


@pytest.mark.parametrize("way", ["loop", "graphs", "calls"])
@pytest.mark.parametrize("method", KINDS)
def test_methods(method, way, monkeypatch):
    """A leaf may be shared before the first step, or be two leaves at once; afterwards not."""
    wanted, compiler = looped(method), Verbatim()
    fused(monkeypatch, compiler, len(SIZES), way)
    found = numbers(trained(method))
    # In the first step a product of all clients with one matrix is one of each with its own.
    for one, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    assert compiler.compiled in (1, 2), "once for every kind of step, whatever the round"


@pytest.mark.parametrize("network", ["conv", "normed", "lstm"])
def test_networks(network, monkeypatch):
    """The first call of a network may be the recorded one: its buffers are copied there."""
    dtype = torch.float32 if network == "lstm" else torch.float64
    task, data = network_task(network, dtype)
    w = tree.map(lambda x: x.to(dtype), task.init(rng.key(7)))
    compiler = Verbatim()
    fused(monkeypatch, compiler, data.n_clients)
    recipe = composed(task, data, "fedprox", rounds=3, **sampled(1.0, 2.0))
    found = play(recipe, data, 3, w, batch_size=3)
    assert compiler.compiled in (1, 2)
    fused(monkeypatch, compiler, clients=1000)
    looped = play(recipe, data, 3, w, batch_size=3)
    for one, other in zip(numbers(looped), numbers(found), strict=True):
        close = {"rtol": 1e-9, "atol": 1e-12} if dtype == torch.float64 else {}
        torch.testing.assert_close(one, other, **close)


def test_a_step_that_cannot_be_recorded_is_computed():
    """Whatever goes wrong while it is written down, it may still be taken."""
    tried = list[int]()

    def step(w: Tensor, batch: Any, given: Any) -> Tensor:
        tried.append(1)
        if len(tried) == 1:
            raise RuntimeError("not while I am watched")
        return 2 * w + 1

    one = Fused(step, 3, Programs(Verbatim()))
    with pytest.warns(RunWarning, match=r"cannot be compiled.*\(not while I am watched\)\.$"):
        found = vmap(lambda w: one(w, (), ()))(torch.ones(3, 2))
    assert torch.equal(found, torch.full((3, 2), 3.0))


def test_a_recording_keeps_forms_and_not_numbers():
    """Else a step of many clients would hold all of its activations at once."""
    graph = recorded(lambda x: [x.exp().sum()], [torch.ones(4, 5)], keep=False).graph
    held = [node.meta["val"] for node in graph.nodes if "val" in node.meta]
    assert [x.device.type for x in held] == ["meta"] * 3
    assert [tuple(x.shape) for x in held] == [(4, 5), (4, 5), ()]


def test_other_numbers_of_clients_are_computed_as_they_are(monkeypatch):
    task, data = network_task("dense")
    compiler = Verbatim()
    fused(monkeypatch, compiler, 1000)
    play(composed(task, data, "fedprox", rounds=1), data, 1, batch_size=3)
    assert compiler.compiled == 0


def test_a_step_that_cannot_be_compiled_is_computed(monkeypatch):
    def broken(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        raise RuntimeError("no kernel for this\nand more")

    task, data = network_task("dense")
    recipe = composed(task, data, "fedprox", rounds=2)
    fused(monkeypatch, Verbatim(), clients=1000)
    looped = play(recipe, data, 2, batch_size=3)
    fused(monkeypatch, broken, data.n_clients)
    with pytest.warns(RunWarning, match=r"cannot be compiled.*\(no kernel for this\)\.$"):
        found = play(recipe, data, 2, batch_size=3)
    assert same(looped.states[-1].servers, found.states[-1].servers)


def passes(step: Callable[[Tensor], Tensor]) -> bool:
    """Whether a step on weights of 10 by 10 is worth compiling."""
    compiler = Verbatim()
    one = Fused(lambda w, x, given: step(w), 3, Programs(compiler))
    vmap(lambda w: one(w, (), ()))(torch.ones(3, 10, 10))
    return compiler.compiled == 1


def test_what_is_worth_compiling():
    assert not passes(lambda w: w + 1)
    assert not passes(lambda w: (w @ w).t().reshape(10, 10) + 1), "products and views"
    assert passes(lambda w: 2 * w + 1)
    assert passes(lambda w: w + w.square() @ w)


def test_a_program_gets_what_its_step_reads():
    """Neither an argument that it does not use nor a number that became none is made for it."""
    given = list[int]()

    def watched(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        given.append(len(inputs))
        return graph

    one = Fused(lambda w, batch, _: 2 * w + batch[0] + batch[2], 3, Programs(watched))
    w, unread = torch.ones(3, 4, 4), torch.ones(3, 5)
    found = vmap(lambda w, x: one(one(w, (1, x, 3), ()), (1, x, 7), ()))(w, unread)
    assert torch.equal(found, 2 * (2 * w + 4) + 8)
    assert given == [3], "the weights and two numbers, whatever these are"


@pytest.mark.parametrize(
    ("more", "clients"),
    [
        ({}, 5),
        ({"rounds": 10}, 0),
        ({"participation": {"number": 2}}, 2),
        ({"engine": {"compiled": False}}, 0),
        ({"rounds": 300}, 0),
        ({"rounds": 300, "model": "resnet10"}, 5),
        ({"rounds": 300, "model": "mcmahan_cnn"}, 0),
        ({"rounds": 100, "model": "resnet10"}, 0),
    ],
    ids=str,
)
def test_long_runs_are_compiled(more, clients, monkeypatch):
    """By the configuration alone, so that a resumed run computes as it did; normalisation pays
    sooner.
    """
    raw = {"rounds": 5000, "data": "digits", "partition": {"name": "iid", "clients": 5}}
    config = parse(raw | more)
    made = experiment(parse(raw | more | {"rounds": 1})).simulation
    task, data = made.recipe.algorithm.task, made.federation
    found = choice.engine(config, task, data, torch.device("cuda"))
    assert found.compiled == clients
