"""Ditto beside the algorithm on plain numbers, and around other methods bit for bit."""

from typing import Any

import pytest
import torch
from federations import (
    Named,
    Played,
    Product,
    Quadratic,
    at,
    composed,
    network_task,
    play,
    same,
    sampled,
    scalars,
)

from unalike import rng, tree
from unalike.algorithms.ditto import Ditto
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.phase_shift import PhaseShift
from unalike.algorithms.scaffold import Scaffold
from unalike.errors import ConfigError
from unalike.parts.optim import Adam, Sgd
from unalike.parts.participation.schedule import Participation, Sampled
from unalike.parts.representation.private import Private
from unalike.recipe import Recipe

MINIMA, SIZES = [0.0, 10.0, -4.0], [1, 2, 3]
CLOSE = {"abs": 1e-6, "rel": 1e-6}


def test_both_models_on_parabolas() -> None:
    """Two epochs of single examples; the pull is to the received model, not to the trained one."""
    recipe = Recipe(
        Ditto(FedAvg(Quadratic(), Sgd(0.1)), Sgd(0.2), pull=0.5),
        schedule=Sampled(Participation(), 2.0),
    )
    played = play(recipe, scalars(MINIMA, SIZES), 4, at(w=4.0), batch_size=1)
    x, own = 4.0, [4.0] * 3
    for t in range(4):
        ends = []
        for k, (m, n) in enumerate(zip(MINIMA, SIZES, strict=True)):
            w = x
            for _ in range(2 * n):
                w -= 0.1 * (w - m)
                own[k] -= 0.2 * ((own[k] - m) + 0.5 * (own[k] - x))
            ends.append(n / 6 * w)
        x = sum(ends)
        assert float(played.states[t + 1].servers[0].x["w"]) == pytest.approx(x, **CLOSE)
        assert [float(played.kept[t][k].v["w"]) for k in range(3)] == pytest.approx(own, **CLOSE)


def test_around_a_private_part_it_pulls_to_the_client_s_own_and_the_shared_part() -> None:
    """L = 1/2 (g f - y)^2, f private: one step from f = 2, g = 1, y = 5, so g f - y = -3.

    FedAvg: f = 2 + 0.1 x 3, g = 1 + 0.1 x 6 = 1.6. v from the same place is not pulled in round 1:
    (2.3, 1.6). In round 2 it is pulled to what the client has: f = 2.3, g = 1.6, where it is.
    """
    base = FedAvg(Product(names=("f", "g")), Sgd(0.1), private=Private(("f",)))
    played = play(
        Recipe(Ditto(base, Sgd(0.1), pull=3.0)), scalars([[1.0, 5.0]]), 2, at(f=2.0, g=1.0)
    )
    first, second = played.kept[0][0], played.kept[1][0]
    assert float(first.v["f"]) == pytest.approx(2.3)
    assert float(first.v["g"]) == pytest.approx(1.6)
    assert float(second.v["f"]) == pytest.approx(float(second.base["f"]))
    assert float(second.v["g"]) == pytest.approx(float(played.x["g"]))


def run(*methods: Named, network: str = "conv", **parts: Any) -> Played:
    task, data = network_task(network)
    recipe = composed(task, data, *methods, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, 3, engine="sequential", batch_size=16, traced=False)


@pytest.mark.parametrize("opt", [Sgd(0.05, 0.9, 1e-3), Adam(0.01)])
def test_without_a_pull_it_is_training_alone(opt: Any) -> None:
    """Bit for bit: dropout, momentum and running statistics too."""
    ditto, alone = (run(m, opt=opt) for m in (("ditto", {"pull": 0.0}), "local_only"))
    for mine, own in zip(ditto.kept, alone.kept, strict=True):
        assert same({k: m.v for k, m in mine.items()}, own)
    assert not same({k: m.v for k, m in run("ditto", opt=opt).kept[-1].items()}, alone.kept[-1])


BASES: dict[str, tuple[Named, ...]] = {
    "fedavg": (),
    "fedprox": (("fedprox", {"mu": 0.3}),),
    "scaffold": ("scaffold",),
    "fedadam": ("fedadam",),
    "lg_fedavg": ("lg_fedavg",),
    "fednova and feddisco": ("fednova", "feddisco"),
    "term": ("term",),
    "median": ("median",),
}


@pytest.mark.parametrize("name", BASES)
def test_the_shared_model_is_that_of_the_method_inside(name: str) -> None:
    """Bit for bit, with the same messages and twice the gradients."""
    bare, around = run(*BASES[name]), run(*BASES[name], "ditto")
    assert same(bare.server, around.server)
    for one, two in zip(bare.rounds, around.rounds, strict=True):
        assert one.traffic == two.traffic
        assert two.worked["gradients"] == 2 * one.worked["gradients"]
    for before, after in zip(bare.kept, around.kept, strict=True):
        assert same(before, {k: m.base for k, m in after.items()})


@pytest.mark.parametrize("first", [True, False])
def test_around_phase_shift_in_either_order(first: bool) -> None:
    """Corrections are the business of the method inside; the pull is to the central model."""
    methods = ("ditto", "phase_shift") if first else ("phase_shift", "ditto")
    task, data = network_task("dense")
    recipe = composed(task, data, *methods, opt=Sgd(0.05, 0.9))
    assert isinstance(recipe.algorithm, Ditto)
    assert isinstance(recipe.algorithm.base, PhaseShift)
    bare = composed(task, data, "phase_shift", opt=Sgd(0.05, 0.9))
    one, two = (play(r, data, engine="sequential", traced=False) for r in (recipe, bare))
    assert same(one.server, two.server)


def test_the_mean_of_models_in_flight_goes_through() -> None:
    """What phase-shift judges beside the central model."""
    task, data = network_task("dense")
    virtual = ("phase_shift", {"eval_model": "virtual_mean"})
    played = play(composed(task, data, virtual, "ditto"), data, 2)
    algorithm = played.simulation.recipe.algorithm
    mine = played.kept[-1][0]
    assert same(algorithm.flying(mine), mine.base.w)
    landed = algorithm.landed(played.server, mine.base.w)
    assert same(landed.base.x, mine.base.w)


def test_who_is_absent_keeps_his_model_and_everybody_is_judged_by_his_own() -> None:
    played = run("ditto")
    for t in (1, 2):
        present = set(played.rounds[t].ids.tolist())
        for i, mine in played.kept[t - 1].items():
            assert same(mine.v, played.kept[t][i].v) == (i not in present)
    algorithm = played.simulation.recipe.algorithm
    down = algorithm.broadcast(played.server)
    one = played.kept[-1][played.rounds[-1].ids[0].item()]
    assert same(algorithm.personal(down, one), one.v)
    assert same(algorithm.received(down, one), down.x)
    assert same(algorithm.model(played.server, rng.key(0)), played.x)
    assert algorithm.personal_models


def test_some_of_the_epochs() -> None:
    """One of one and a half: as many gradients, and another model than with all."""
    some, everything = run(("ditto", {"epochs": 1})), run("ditto")
    samples = some.rounds[0].worked["samples"]
    sizes = [(5, 9, 16, 20, 30, 40)[i] for i in some.rounds[0].ids.tolist()]
    assert some.rounds[0].worked["gradients"] == samples + sum(sizes)
    assert same(some.x, everything.x)
    assert not same(some.kept[-1], everything.kept[-1])


def test_a_rate_of_its_own() -> None:
    task, data = network_task("dense")
    made = composed(task, data, ("ditto", {"lr": 0.5}), opt=Sgd(0.05, 0.9)).algorithm
    assert (made.opt, made.base.opt) == (Sgd(0.5, 0.9), Sgd(0.05, 0.9))


def test_a_later_stage_hands_the_whole_model_over() -> None:
    """Clients begin it with a model of their own, which no download brings."""
    w = at(w=4.0)
    around = Ditto(Scaffold(Quadratic(), 2))
    assert around.handed(w) is w
    assert tree.size_bytes(around.client_init(w, rng.key(0)).v) == 8


@pytest.mark.parametrize(
    ("methods", "why"),
    [
        ((("ditto", {"epochs": 3}),), "local.epochs is 1.5"),
        (("ditto", "superfed_mm"), "gives every client its own model; keep one"),
        (("ditto", "per_fedavg"), "gives every client its own model; keep one"),
        (("ditto", "fedevg"), "no shared model"),
        (("ditto", "local_only"), "every client trains alone"),
        (("ditto", "pooled"), "all data are in one place"),
    ],
)
def test_what_is_refused(methods: tuple[Named, ...], why: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=why):
        composed(task, data, *methods, **sampled(1.0, 1.5))


def test_the_pull_leaves_running_statistics_alone() -> None:
    """They are those of the client's own forward passes, and finite weights with any pull."""
    played = run(("ditto", {"pull": 5.0}))
    mine = played.kept[-1][played.rounds[-1].ids[0].item()].v
    names = [k for k in mine if "running" in k]
    assert names
    for k in names:
        assert not torch.equal(mine[k], played.x[k])
