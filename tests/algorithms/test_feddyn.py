"""FedDyn on parabolas beside algorithm 1 with g_k, h and divisions by alpha as printed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from federations import (
    Named,
    Quadratic,
    Works,
    at,
    composed,
    distance,
    network_task,
    play,
    same,
    sampled,
    scalars,
    state_of,
)

from unalike import tree
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.feddyn import FedDyn
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.optim import Adam, Sgd
from unalike.parts.schedule import Participation, Sampled
from unalike.recipe import Recipe

FIVE, SIZES = [0.0, 10.0, 3.0, -4.0, 8.0], [1, 2, 3, 4, 5]
SIX = (5, 9, 16, 20, 30, 40)  # clients of the networks' federation
CLOSE = {"abs": 5e-6, "rel": 5e-6}


def by_hand(
    pi: Sequence[float], cohorts: Sequence[Sequence[int]], lr: float, alpha: float, momentum: float
) -> tuple[list[float], list[float], list[float]]:
    """(x and h after every round, all g_k in the end)."""
    x, h, own, trace, sums = 4.0, 0.0, [0.0] * 5, [], []
    for cohort in cohorts:
        ends = {}
        for k in cohort:
            theta, p = x, 0.0
            for _ in range(2 * SIZES[k]):
                p = momentum * p + (theta - FIVE[k]) - own[k] + alpha * (theta - x)
                theta -= lr * p
            own[k] -= alpha * (theta - x)
            ends[k] = theta
        share = {k: pi[k] / sum(pi[i] for i in cohort) for k in cohort}
        h -= alpha * sum(pi[k] * (ends[k] - x) for k in cohort)
        x = sum(share[k] * ends[k] for k in cohort) - h / alpha
        trace.append(x)
        sums.append(h)
    return trace, sums, own


RULES: dict[str, tuple[Mixing, list[float]]] = {
    "the plain mean": (Uniform(), [0.2] * 5),
    "by examples": (ByExamples(), [n / 15 for n in SIZES]),
}


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize("rule", RULES)
def test_whole_trace_of_the_algorithm(rule: str, fraction: float, momentum: float) -> None:
    """h = sum pi_k g_k is an invariant, whoever takes part."""
    mixing, pi = RULES[rule]
    algorithm = FedDyn(Quadratic(), 5, Sgd(0.05, momentum), alpha=0.7)
    recipe = Recipe(algorithm, mixing, Sampled(Participation(fraction), 2.0))
    played = play(recipe, scalars(FIVE, SIZES), 8, at(w=4.0), batch_size=1)
    cohorts = [r.ids.tolist() for r in played.rounds]
    trace, sums, own = by_hand(pi, cohorts, 0.05, 0.7, momentum)
    assert played.trace() == pytest.approx(trace, **CLOSE)
    h = [-0.7 * float(s.servers[0].s["w"]) for s in played.states[1:]]
    assert h == pytest.approx(sums, **CLOSE)
    found = [-0.7 * float(state_of(played.simulation, k)["w"]) for k in range(5)]
    assert found == pytest.approx(own, **CLOSE)
    assert h[-1] == pytest.approx(sum(p * g for p, g in zip(pi, found, strict=True)), abs=1e-5)


def test_it_finds_the_optimum_where_fedavg_drifts() -> None:
    """Minima 0 and 10, one and eight steps: the optimum of the plain mean is 5."""
    two, work = scalars([0.0, 10.0]), Works((1, 8))
    drift = play(Recipe(FedAvg(Quadratic(), Sgd(0.2)), schedule=work), two, 60, at(w=4.0))
    algorithm = FedDyn(Quadratic(), 2, Sgd(0.2), alpha=1.0)
    dynamic = play(Recipe(algorithm, Uniform(), work), two, 60, at(w=4.0))
    assert drift.trace()[-1] > 6
    assert dynamic.trace()[-1] == pytest.approx(5.0, abs=1e-4)


def run(*methods: Named, rounds: int = 1, **parts: Any) -> Any:
    task, data = network_task("conv")
    recipe = composed(task, data, *methods, **{**sampled(1.0, 1.5), **parts})
    return play(recipe, data, rounds, engine="sequential", batch_size=16, traced=False)


@pytest.mark.parametrize("opt", [Sgd(0.05, 0.9, 1e-3), Adam(0.01)])
def test_without_a_penalty_clients_train_as_fedavgs_do(opt: Any) -> None:
    """Bit for bit; the server goes twice as far in the first round, once more than the mean."""
    one, other = (run(m, opt=opt) for m in (("feddyn", {"alpha": 1e-30}), "fedavg"))
    first = other.states[0].servers[0].x
    task = one.simulation.recipe.algorithm.task
    change = task.weights(tree.sub(other.x, first))
    assert distance(change, one.server.s) < 1e-5
    assert distance(task.weights(tree.sub(one.x, first)), tree.scale(2.0, change)) < 1e-5
    buffers = [k for k in first if "running" in k]
    assert all(bool((one.x[k] == other.x[k]).all()) for k in buffers)
    kept = sum(n * m["6.bias"] for n, m in zip(SIX, one.kept[0].values(), strict=True))
    assert distance({"b": kept / 120}, {"b": change["6.bias"]}) < 1e-5


def test_one_vector_travels_each_way() -> None:
    """As in FedAvg."""
    one, other = run("feddyn"), run("fedavg")
    assert one.rounds[0].traffic == other.rounds[0].traffic
    assert one.rounds[0].worked == other.rounds[0].worked


def test_who_is_absent_keeps_his_penalty() -> None:
    played = run("feddyn", rounds=3, **sampled(0.5))
    present = set(played.rounds[2].ids.tolist())
    for i, mine in played.kept[1].items():
        assert same(mine, played.kept[2][i]) == (i not in present)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ("median", "must stay the mean of the clients' own"),
        ("sign", "must stay the mean of the clients' own"),
        ("term", "would have no effect in the end"),
        ("phase_shift", "in the round it happens"),
        ("fedadam", "no step of FedAvg's server"),
        ("scaffold", "both set the algorithm"),
        ("fedprox", "already has such a pull"),
    ],
)
def test_what_is_refused(other: str, why: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=why):
        composed(task, data, "feddyn", other)


def test_weights_of_a_survey_move_the_optimum() -> None:
    """As in SCAFFOLD: FedDisco's weights 6/7 and 1/7 move it to 10/7."""
    data = scalars([0.0, 10.0], [4, 4])
    y = torch.tensor([0, 1, 0, 1, 0, 0, 0, 0])
    data = data._replace(examples=replace(data.examples, y=y))
    methods = ("feddyn", {"alpha": 1.0}), "feddisco"
    recipe = composed(Quadratic(), data, *methods, opt=Sgd(0.3))
    assert play(recipe, data, 120, at(w=4.0)).trace()[-1] == pytest.approx(10 / 7, abs=1e-3)
