"""At the edge of their settings methods are one another bit for bit, however steps are computed.

A product that is added to the weights at once is rounded differently from one that is multiplied by
1 or added to 0 before. So where a part of a method cannot act, its steps must be those of the other
method, not steps with zeros in them.
"""

from typing import Any

import pytest
from federations import (
    CLASSES,
    Data,
    Named,
    Played,
    composed,
    federation,
    play,
    same,
    sampled,
    state_of,
)

from unalike import tree
from unalike.algorithms.fedavg import Apart, FedAvg
from unalike.engine import loop as loops
from unalike.engine.simulation import chunks
from unalike.models import MODELS
from unalike.native import build
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.participation.schedule import Participation, Sampled
from unalike.parts.representation.private import EVERYTHING, SHARED
from unalike.recipe import Decay, Recipe
from unalike.tasks import MultiClass, Task
from unalike.tree import Params

WAYS: dict[str, dict[str, Any]] = {
    "one by one": {"engine": "sequential"},
    "traced one by one": {"engine": "sequential", "traced": True},
    "compiled one by one": {"engine": "sequential", "traced": True, "native": True},
    "together": {},
    "traced together": {"traced": True},
    "compiled together": {"traced": True, "native": True, "workers": 2},
    "compiled and summed": {"traced": True, "native": True, "workers": 2, "chunk": 2},
}
OPTIMIZERS = [Sgd(0.05), Sgd(0.05, 0.9, 1e-3)]
HALF = sampled(0.5, 1.5)
NEVER = {"start": 1.0, "mu": 0.0}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How steps are computed."""
    found = WAYS[request.param]
    if "native" in found and build.compiler() is None:
        pytest.skip("needs a C++ compiler")
    if "chunk" in found:  # as if no cohort were small enough to be held
        monkeypatch.setattr(loops, "HELD", 0)
        monkeypatch.setattr(chunks, "FEW_BYTES", 0)
    return found


@pytest.fixture(params=OPTIMIZERS, ids=["plain", "momentum"])
def opt(request: pytest.FixtureRequest) -> Any:
    """Of all clients."""
    return request.param


def setting() -> tuple[Task, Data]:
    """Products are long enough that it matters how they are rounded."""
    module = MODELS["mlp"](hidden=[40]).build((1, 8, 8), CLASSES)
    return MultiClass(Network(module)), federation((1, 8, 8), (20, 30, 40, 50, 60, 70))


def run(way: dict[str, Any], *methods: Named, **parts: Any) -> Played:
    task, data = setting()
    recipe = composed(task, data, *methods, rounds=3, **{**HALF, **parts})
    return play(recipe, data, 3, batch_size=16, **way)


def judged(played: Played) -> dict[int, Params]:
    """The models that clients who took part are judged by."""
    algorithm = played.simulation.recipe.algorithm
    down = algorithm.broadcast(played.server)
    return {i: algorithm.personal(down, mine) for i, mine in played.kept[-1].items()}


EDGES: dict[str, Named] = {
    "superfed_mm": ("superfed_mm", {**NEVER, "nu": 0.0}),
    "superfed_lm": ("superfed_lm", {**NEVER, "nu": 2.0}),
    "fedprox": ("fedprox", {"mu": 0.0}),
    "moon": ("moon", {"mu": 0.0}),
    "pfedme": ("pfedme", {"pull": 4.0, "lr": 0.25, "steps": 1}),
    "per_fedavg": ("per_fedavg", {"alpha": 0.0, "minibatches": "same", "adapt": 0}),
    "apfl at 0": ("apfl", {"alpha": 0.0}),
    "apfl at 1": ("apfl", {"alpha": 1.0}),
    "apfl between": ("apfl", {"alpha": 0.7}),
    "ditto": ("ditto", {"pull": 2.0}),
    "lg_fedavg": ("lg_fedavg", {"shared": sorted(setting()[0].network.weights)}),
    "fedavgm": ("fedavgm", {"lr": 1.0, "momentum": 0.0}),
    "phase_shift": ("phase_shift", {"phases": 1}),
}


@pytest.mark.parametrize("edge", EDGES)
def test_the_shared_model_is_fedavgs(edge: str, opt: Any, way: dict[str, Any]) -> None:
    ours, theirs = run(way, EDGES[edge], opt=opt), run(way, "fedavg", opt=opt)
    assert same(ours.x, theirs.x)


ALONE: dict[str, Named] = {
    "apfl": ("apfl", {"alpha": 1.0}),
    "ditto": ("ditto", {"pull": 0.0}),
    "fedproto": ("fedproto", {"strength": 0.0}),
}


@pytest.mark.parametrize("edge", ALONE)
def test_a_client_s_own_model_is_that_of_training_alone(
    edge: str, opt: Any, way: dict[str, Any]
) -> None:
    ours, alone = judged(run(way, ALONE[edge], opt=opt)), run(way, "local_only", opt=opt)
    assert ours
    for i, own in ours.items():
        assert same(own, alone.kept[-1][i])


def test_fedper_is_the_other_cut_of_lg_fedavg(opt: Any, way: dict[str, Any]) -> None:
    ours = run(way, "fedper", opt=opt)
    theirs = run(way, ("lg_fedavg", {"shared": "body"}), opt=opt)
    assert same(ours.x, theirs.x)
    assert same(judged(ours), judged(theirs))


@pytest.mark.parametrize("private", [EVERYTHING, SHARED], ids=["all head", "no head"])
def test_fedrep_with_one_part_only(private: Any, opt: Any, way: dict[str, Any]) -> None:
    """Training alone, or FedAvg."""
    task, data = setting()

    def ran(apart: Apart | None) -> Played:
        algorithm = FedAvg(task, opt, private=private, apart=apart)
        schedule = Sampled(Participation(0.5), 1.5)
        return play(Recipe(algorithm, schedule=schedule), data, 3, batch_size=16, **way)

    one, other = ran(Apart()), ran(None)
    assert same(one.states[-1], other.states[-1])
    assert same(one.kept[-1], other.kept[-1])


def test_superfed_that_never_mixes_keeps_its_own_end(opt: Any, way: dict[str, Any]) -> None:
    """It is what it was drawn to be, and a client is judged by the point between."""
    played = run(way, ("superfed_mm", {**NEVER, "at": 0.25}), opt=opt)
    still = play(played.simulation.recipe, setting()[1], 0).simulation
    algorithm = played.simulation.recipe.algorithm
    for i, own in played.kept[-1].items():
        assert same(own, state_of(still, i))
    for i, w in judged(played).items():
        assert same(w, tree.lerp(played.x, {**played.x, **state_of(still, i)}, 0.25))
        down = algorithm.broadcast(played.server)
        assert same(algorithm.far_end(down, played.kept[-1][i]), state_of(still, i))


@pytest.mark.parametrize("name", ["superfed_mm", "apfl", "pfedme"])
def test_momentum_that_goes_on_is_kept_there_too(name: str, way: dict[str, Any]) -> None:
    """Beside phase shift clients continue with the optimizer that they had."""
    edge = {**EDGES, "apfl": EDGES["apfl at 0"]}[name]
    both = [("phase_shift", {"phases": 1, "optimizer": "keep"})]
    opt = Sgd(0.05, 0.9)
    ours, theirs = run(way, edge, *both, opt=opt), run(way, "fedavg", *both, opt=opt)
    assert same(ours.x, theirs.x)


def test_a_rate_that_decays_is_not_the_edge_of_pfedme() -> None:
    """The centre goes less than all the way then."""
    decay = Decay("exponential", 0.5)
    ours, theirs = (run({}, m, decay=decay) for m in (EDGES["pfedme"], "fedavg"))
    assert not same(ours.x, theirs.x)
    for i, w in judged(ours).items():
        assert not same(w, ours.x), i


def test_superfed_that_mixes_later_is_not_that_edge() -> None:
    """Nor is one with a pull."""
    plain = run({}, "fedavg")
    for settings in ({"start": 0.0, "mu": 0.0}, {"start": 1.0, "mu": 0.5}):
        assert not same(run({}, ("superfed_mm", settings)).x, plain.x)


def test_nothing_is_drawn_or_counted_twice_at_the_edge() -> None:
    """A client that does FedAvg's work reports no more than that."""
    plain = run({}, "fedavg").rounds[-1].worked
    for edge in ("superfed_mm", "moon", "pfedme", "per_fedavg", "apfl at 0"):
        assert run({}, EDGES[edge]).rounds[-1].worked == plain
