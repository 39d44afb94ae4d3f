"""Steps take what they read, so that one that was traced or recorded serves in every round.

For every method of the table: what it hands to ``fold`` can be looked up (hash, equality), is the
same in two rounds, and holds no tensor; what changes from round to round is among its arguments.
Uploads have the form that was declared, and the work of clients is counted where it happens.
"""

from collections import Counter
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import pytest
import torch
from autoencoders import clients, vae
from federations import CLASSES, Data, Named, composed, network_task, play, sampled
from torch import Tensor

from unalike import tree
from unalike.algorithm import Wrapper
from unalike.algorithms.table import METHODS
from unalike.batches import Batches
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe
from unalike.settings import Settings
from unalike.tree import Tree

ROUNDS = 2
CHOOSING = {"by_size", "power_of_choice", "tifl", "fedbuff"}  # whose clients train as FedAvg's
STAGED = {"fedmix", "astraea"}  # which need what the stage before left
# Settings that a small federation needs, and one name for every way to train.
CASES: dict[str, tuple[Named, ...]] = {
    name: (name,) for name in METHODS if name not in CHOOSING | STAGED
} | {
    "fedprox adaptive": (("fedprox", {"adaptive": True}),),
    "superfed_mm": (("superfed_mm", {"start": 0.5}),),
    "phase_shift": (("phase_shift", {"phases": 3}),),
    "per_fedavg": (("per_fedavg", {"minibatches": "same"}),),
    "fedaug": (("fedaug", {"target": 0.1}),),
    "fedevg": (("fedevg", {"per_class": 2}),),
    "fedevg in chains": (("fedevg", {"per_class": 30, "chain": 3}),),
    "krum": (("krum", {"attackers": 1, "select": 2}),),
    "trimmed_mean": (("trimmed_mean", {"trim": 0.34}),),
    "dp": (("dp", {"delta": 0.01}),),
    "local_dp": (("local_dp", {"delta": 0.01}),),
    "lg_fedavg in turns": (("lg_fedavg", {"step": "sequential"}),),
    "lg_fedavg in turns, pulled": (("lg_fedavg", {"step": "sequential"}), "fedprox"),
    "latent_disco": (("latent_disco", {"refresh": "every"}),),
    "phase_shift around scaffold": ("scaffold", ("phase_shift", {"phases": 2})),
    "phase_shift around superfed_mm": ("superfed_mm", ("phase_shift", {"phases": 2})),
}


def recipe_of(name: str, **parts: Any) -> tuple[Recipe, Data]:
    """A method on data that suit it; everybody takes part and does an epoch and a half."""
    task, data = (vae(), clients()) if name == "latent_disco" else network_task("normed")
    momentum = "scaffold" not in name and name not in ("latent_disco", "qfedavg")
    opt = Sgd(0.05, 0.9 if momentum else 0.0)
    recipe = composed(task, data, *CASES[name], **{"opt": opt, **sampled(1.0, 1.5), **parts})
    if name == "pooled":
        data = Data(data.examples, type(data.rows)(data.rows.order, data.rows.start[[0, -1]]))
    return recipe, data


def held(thing: Any) -> list[Tensor]:
    """The tensors that something brings along: in closures, defaults, fields and containers."""
    if isinstance(thing, Tensor):
        return [thing]
    if isinstance(thing, Network):  # a module's own weights are its constants, read by nobody
        return []
    inner: list[Any] = []
    if isinstance(thing, FunctionType):
        inner = [c.cell_contents for c in thing.__closure__ or ()] + [*(thing.__defaults__ or ())]
    elif isinstance(thing, MethodType):
        inner = [thing.__self__, thing.__func__]
    elif isinstance(thing, partial):
        inner = [thing.func, *thing.args, *thing.keywords.values()]
    elif is_dataclass(thing) and not isinstance(thing, type):
        inner = [getattr(thing, f.name) for f in fields(thing)]
    elif isinstance(thing, Settings):
        inner = list(thing.__dict__.values())
    elif isinstance(thing, dict):
        inner = list(thing.values())
    elif isinstance(thing, list | tuple | set | frozenset):
        inner = list(thing)
    return [t for part in inner for t in held(part)]


def form(t: Tree) -> dict[str, Any]:
    """Structure, shapes and types."""
    return {"": type(t)} | {k: (tuple(x.shape), x.dtype) for k, x in tree.named(t).items()}


class Watched(NamedTuple):
    """What was handed to ``fold``, sent and counted in two rounds."""

    steps: list[Any]
    given: list[list[Tensor]]
    forms: list[tuple[dict[str, Any], dict[str, Any]]]  # of an upload, and of the declared one
    work: list[dict[str, float]]
    data: Data


@cache
def watched(name: str, engine: Any) -> Watched:
    """Two rounds of a method, everybody in one call or one after another."""
    recipe, data = recipe_of(name)
    found, fold = Watched([], [], [], [], data), Batches.fold

    def noted(self: Batches, step: Any, carry: Any, given: Any = (), **more: Any) -> Any:
        found.steps.append(step)
        found.given.append([x.clone() for x in tree.leaves(given)])
        return fold(self, step, carry, given, **more)

    @dataclass(frozen=True)
    class Watching(Wrapper):
        base: Any

        def client(self, down: Any, *others: Any) -> Any:
            up, stats, kept = self.base.client(down, *others)
            found.forms.append((form(up), form(self.base.upload_like(down))))
            return up, stats, kept

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batches, "fold", noted)
        recipe = replace(recipe, algorithm=Watching(recipe.algorithm))
        played = play(recipe, data, ROUNDS, engine=engine, batch_size=16)
    found.work.extend(done.worked for done in played.rounds)
    return found


ways = pytest.mark.parametrize("engine", ["sequential", "vectorized"])


@ways
@pytest.mark.parametrize("name", CASES)
def test_steps_are_the_same_in_every_round(name: str, engine: Any) -> None:
    found = watched(name, engine)
    times = ROUNDS * (found.data.n_clients if engine == "sequential" else 1)
    assert found.steps
    for step, count in Counter(found.steps).items():
        assert not held(step), f"{step} of {name} holds a tensor"
        assert count % times == 0, f"{step} of {name} is another one in the next round"


READS = {  # whether a step reads something that changes with the round
    "fedavg": False,
    "fedprox": True,
    "scaffold": True,
    "superfed_mm": True,
    "fedevg": True,
    "lg_fedavg in turns": False,
    "lg_fedavg in turns, pulled": True,
    "phase_shift": False,
}


@pytest.mark.parametrize("name", READS)
def test_what_changes_is_given(name: str) -> None:
    """A constant rate is given, too, but does not change."""
    found = watched(name, "sequential")
    first, second = found.given[0], found.given[found.data.n_clients]
    assert first
    same = all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert same is not READS[name]


@ways
@pytest.mark.parametrize("name", CASES)
def test_uploads_have_the_declared_form(name: str, engine: Any) -> None:
    """Known before anybody trained."""
    for real, declared in watched(name, engine).forms:
        assert real == declared


LOOKS = {"afl", "aaggff_d", "aaggff_s", "qfedavg", "term", "propfair", "fedprox adaptive"}
LOOKS |= {"latent_disco"}


RATES = {
    "ditto": 2,
    "fedrep": 2,
    "apfl": 2,
    "pfedme": 5,
    "per_fedavg": 4,
    "moon": 2,
    "fedproto": 2,
}  # gradients of a row


@ways
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_counted_where_they_happen(name: str, engine: Any) -> None:
    """Of all examples, half again as often; twice that in turns; chains and all."""
    found = watched(name, engine)
    rate, extra = RATES.get(name, 1), 0
    if "in turns" in name:
        rate = 2
    elif name == "fedevg":  # real, refined, downloaded, and one step of the chain; 6 in the end
        rate, extra = 4, 6 * (2 * CLASSES)
    elif name == "fedevg in chains":
        rate, extra = 6, 6 * (30 * CLASSES)
    elif name == "fedcgan":  # real and made, then made again
        rate = 3
    sizes = found.data.rows.sizes
    samples = int((1.5 * sizes + 0.5).astype(int).sum())
    for work in found.work:
        assert work["samples"] == samples
        assert work["gradients"] == rate * samples + extra
        assert work["looked"] == (sizes.sum() if name in LOOKS else 0)


def test_tensors_are_found_wherever_they_hide() -> None:
    """The search above is not blind."""
    w = torch.ones(2)

    @dataclass(frozen=True)
    class Record:
        inside: Any

        def step(self) -> None: ...

    assert held(lambda: w)
    assert held(lambda w=w: None)
    assert held(partial(print, w))
    assert held(Record({"w": (w,)}))
    assert held(Record(w).step)
    assert held(Record(lambda: w).step)
    assert not held(Record((1.0, "w")).step)
