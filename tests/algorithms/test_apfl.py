"""APFL beside algorithm 1 on plain numbers; at any alpha its shared model is FedAvg's."""

from typing import Any

import pytest
import torch
from federations import (
    Named,
    Played,
    Quadratic,
    at,
    composed,
    network_task,
    play,
    same,
    sampled,
    scalars,
    state_of,
)

from unalike import tree
from unalike.algorithms.apfl import Apfl
from unalike.algorithms.fedavg import FedAvg
from unalike.errors import ConfigError
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Adam, Sgd
from unalike.parts.participation.schedule import Participation, Sampled
from unalike.recipe import Recipe

MINIMA, SIZES = [0.0, 10.0, -4.0], [1, 2, 3]
CLOSE = {"abs": 2e-6, "rel": 2e-6}


@pytest.mark.parametrize("against", ["local", "received"])
@pytest.mark.parametrize("adapt", ["never", "round", "step"])
def test_all_three_on_parabolas(adapt: Any, against: Any) -> None:
    """Two epochs of single examples with momentum; alpha has none."""
    algorithm = Apfl(FedAvg(Quadratic(), Sgd(0.05, 0.5)), 0.4, adapt, against)
    recipe = Recipe(algorithm, schedule=Sampled(Participation(), 2.0))
    played = play(recipe, scalars(MINIMA, SIZES), 4, at(w=4.0), batch_size=1)
    x, own, share = 4.0, [4.0] * 3, [0.4] * 3
    for t in range(4):
        ends = []
        for k, (m, n) in enumerate(zip(MINIMA, SIZES, strict=True)):
            w, v, a, p, q = x, own[k], share[k], 0.0, 0.0
            for s in range(2 * n):
                beside = w if against == "local" else x
                slope = a * v + (1 - a) * beside - m
                p, q = 0.5 * p + (w - m), 0.5 * q + a * slope
                if adapt == "step" or (adapt == "round" and s == 0):
                    a = min(max(a - 0.05 * (v - beside) * slope, 0.0), 1.0)
                w, v = w - 0.05 * p, v - 0.05 * q
            own[k], share[k] = v, a
            ends.append(n / 6 * w)
        x = sum(ends)
        assert float(played.states[t + 1].servers[0].x["w"]) == pytest.approx(x, **CLOSE)
        kept = played.kept[t]
        assert [float(kept[k].v["w"]) for k in range(3)] == pytest.approx(own, **CLOSE)
        assert [float(kept[k].alpha) for k in range(3)] == pytest.approx(share, **CLOSE)
    assert (share != [0.4] * 3) == (adapt != "never")
    down = algorithm.broadcast(played.server)
    for k in range(3):
        mine = state_of(played.simulation, k)
        judged = float(algorithm.personal(down, mine)["w"])
        assert judged == pytest.approx(share[k] * own[k] + (1 - share[k]) * x, **CLOSE)
        assert float(algorithm.far_end(down, mine)["w"]) == pytest.approx(own[k], **CLOSE)


def test_alpha_stays_a_share() -> None:
    """Two clients far apart push it to either end, and never beyond."""
    recipe = Recipe(Apfl(FedAvg(Quadratic(), Sgd(0.5)), 0.5, "step"))
    played = play(recipe, scalars([100.0, -100.0], [4, 4]), 5, at(w=0.0), batch_size=1)
    found = [float(m.alpha) for kept in played.kept for m in kept.values()]
    assert all(0 <= a <= 1 for a in found)
    assert 1.0 in found or 0.0 in found


def run(*methods: Named, network: str = "conv", **parts: Any) -> Played:
    task, data = network_task(network)
    recipe = composed(task, data, *methods, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, 3, engine="sequential", batch_size=16, traced=False)


@pytest.mark.parametrize("settings", [{"alpha": 0.0}, {"alpha": 0.7}, {"adapt": "step"}])
@pytest.mark.parametrize("opt", [Sgd(0.05, 0.9, 1e-3), Adam(0.01)])
def test_the_shared_model_is_fedavgs(settings: dict[str, Any], opt: Any) -> None:
    """Bit for bit, with its messages and twice its gradients, if the own model trains."""
    one, other = (run(m, opt=opt) for m in (("apfl", settings), "fedavg"))
    assert same(one.server, other.server)
    assert one.rounds[0].traffic == other.rounds[0].traffic
    times = 1 if settings == {"alpha": 0.0} else 2
    assert one.rounds[0].worked["gradients"] == times * other.rounds[0].worked["gradients"]


def test_without_a_share_everybody_is_judged_as_in_fedavg() -> None:
    """Bit for bit, running statistics too."""
    played = run(("apfl", {"alpha": 0.0}))
    algorithm = played.simulation.recipe.algorithm
    down = algorithm.broadcast(played.server)
    for mine in played.kept[-1].values():
        assert same(algorithm.personal(down, mine), played.x)
        assert same(mine.v, algorithm.task.weights(played.states[0].servers[0].x))


def test_with_the_whole_share_it_is_training_alone() -> None:
    """Bit for bit: u = v, and the shared model has no part in it."""
    one, alone = (run(m, opt=Sgd(0.05, 0.9)) for m in (("apfl", {"alpha": 1.0}), "local_only"))
    algorithm = one.simulation.recipe.algorithm
    down = algorithm.broadcast(one.server)
    for i, own in alone.kept[-1].items():
        assert same(algorithm.personal(down, one.kept[-1][i]), own)


def test_who_is_absent_keeps_his_share() -> None:
    played = run(("apfl", {"adapt": "round"}))
    present = set(played.rounds[2].ids.tolist())
    for i, mine in played.kept[1].items():
        assert same(mine, played.kept[2][i]) == (i not in present)


def test_momentum_goes_on_beside_phase_shift() -> None:
    """Of both models; the shared one is still that of phase-shift alone."""
    task, data = network_task("dense")
    opt = Sgd(0.05, 0.9)
    one, other = (
        play(composed(task, data, *m, opt=opt), data, engine="sequential", traced=False)
        for m in (("apfl", "phase_shift"), ("phase_shift",))
    )
    assert same(one.server, other.server)
    kept = one.kept[-1][0].base
    assert all(any(torch.count_nonzero(x) for x in tree.leaves(m)) for m in kept.opt)


def test_a_plain_mean() -> None:
    task, data = network_task("dense")
    assert composed(task, data, ("apfl", {"averaging": "uniform"})).mixing == Uniform()


@pytest.mark.parametrize("other", ["scaffold", "superfed_mm", "fedper", "ditto"])
def test_what_has_no_place_beside_it(other: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError):
        composed(task, data, "apfl", other)
