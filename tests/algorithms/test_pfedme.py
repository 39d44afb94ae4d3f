"""pFedMe beside algorithm 1 on plain numbers; where the centre goes all the way it is FedAvg."""

from typing import Any

import pytest
from federations import (
    Named,
    Played,
    Quadratic,
    at,
    composed,
    distance,
    network_task,
    play,
    same,
    sampled,
    scalars,
)

from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.pfedme import PFedMe
from unalike.errors import ConfigError
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Sgd
from unalike.parts.participation.schedule import Participation, Sampled
from unalike.recipe import Recipe

MINIMA, SIZES = [0.0, 10.0, -4.0], [1, 2, 3]
CLOSE = {"abs": 2e-6, "rel": 2e-6}


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_envelopes_of_parabolas(momentum: float) -> None:
    """Three inner steps on each of two epochs' examples; the server goes half of the way."""
    base = FedAvg(Quadratic(), Sgd(0.02, momentum), server_opt=Sgd(0.5))
    recipe = Recipe(PFedMe(base, 6.0, 3, 0.1), schedule=Sampled(Participation(), 2.0))
    played = play(recipe, scalars(MINIMA, SIZES), 4, at(w=4.0), batch_size=1)
    x, own = 4.0, [4.0] * 3
    for t in range(4):
        ends = []
        for k, (m, n) in enumerate(zip(MINIMA, SIZES, strict=True)):
            w = theta = x
            p = 0.0
            for _ in range(2 * n):
                for _ in range(3):
                    p = momentum * p + (theta - m) + 6 * (theta - w)
                    theta -= 0.02 * p
                w -= 0.1 * 6 * (w - theta)
            own[k] = theta
            ends.append(n / 6 * w)
        x = 0.5 * x + 0.5 * sum(ends)
        assert float(played.states[t + 1].servers[0].x["w"]) == pytest.approx(x, **CLOSE)
        kept = [float(played.kept[t][k]["w"]) for k in range(3)]
        assert kept == pytest.approx(own, **CLOSE)


def test_many_inner_steps_reach_the_envelope() -> None:
    """argmin 1/2 (theta - m)^2 + 3/2 (theta - w)^2 = (m + 3 w) / 4 = 5.5 for m = 10, w = 4."""
    recipe = Recipe(PFedMe(FedAvg(Quadratic(), Sgd(0.1)), 3.0, 100, 0.1))
    played = play(recipe, scalars([10.0]), 1, at(w=4.0))
    assert float(played.kept[0][0]["w"]) == pytest.approx(5.5, abs=1e-6)
    assert played.trace() == pytest.approx([4 + 0.3 * 1.5], abs=1e-6)


def run(*methods: Named, network: str = "conv", **parts: Any) -> Played:
    task, data = network_task(network)
    recipe = composed(task, data, *methods, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, 3, engine="sequential", batch_size=16, traced=False)


@pytest.mark.parametrize("opt", [Sgd(0.05), Sgd(0.05, 0.9, 1e-3)])
def test_where_the_centre_goes_all_the_way_it_is_fedavg(opt: Any) -> None:
    """eta lambda = 1 and one inner step: bit for bit; the personal model is what was trained."""
    whole = ("pfedme", {"pull": 4.0, "lr": 0.25, "steps": 1})
    one, other = run(whole, opt=opt), run("fedavg", opt=opt)
    assert same(one.server, other.server)
    assert one.rounds[0].traffic == other.rounds[0].traffic
    assert one.rounds[0].worked == other.rounds[0].worked


def test_one_inner_step_on_one_batch_is_a_shorter_step_of_fedavg() -> None:
    """w - eta lambda eta_p grad F(w)."""
    task, data = network_task("dense")
    short = composed(task, data, ("pfedme", {"pull": 4.0, "lr": 0.05, "steps": 1}), opt=Sgd(0.5))
    plain = composed(task, data, "fedavg", opt=Sgd(0.1))
    one, other = (play(r, data, 3, batch_size=64) for r in (short, plain))
    assert distance(one.x, other.x) < 1e-6


def test_everybody_is_judged_by_his_own_and_reports_the_shared() -> None:
    played = run("pfedme")
    algorithm = played.simulation.recipe.algorithm
    down = algorithm.broadcast(played.server)
    mine = played.kept[-1][int(played.rounds[-1].ids[0])]
    assert same(algorithm.personal(down, mine), mine)
    assert same(algorithm.received(down, mine), down.x)
    assert not same(mine, down.x)
    assert any("running_mean" in k for k in mine)


def test_gradients_are_counted() -> None:
    for steps in (1, 4):
        work = run(("pfedme", {"steps": steps}), network="dense").rounds[0].worked
        assert work["gradients"] == steps * work["samples"]


def test_the_server_s_step() -> None:
    """Only where it is not the whole one is there nothing left for another optimizer."""
    task, data = network_task("dense")
    assert composed(task, data, ("pfedme", {"beta": 2.0})).algorithm.base.server_opt == Sgd(2.0)
    composed(task, data, "pfedme", "fedadam")
    with pytest.raises(ConfigError, match="replaces the server's step"):
        composed(task, data, ("pfedme", {"beta": 2.0}), "fedadam")
    assert composed(task, data, ("pfedme", {"averaging": "uniform"})).mixing == Uniform()


def test_a_centre_that_would_jump_over_the_personal_model() -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=r"1\.5 times the way to the personal one"):
        composed(task, data, ("pfedme", {"lr": 0.1}))
