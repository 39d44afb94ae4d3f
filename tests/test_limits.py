"""At the edge of their settings, methods are one another: most of all, FedAvg.

Often bit for bit, which holds client by client; in a vmapped call the kernels differ with what is
shared by the cohort.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    CLASSES,
    Data,
    Named,
    Played,
    composed,
    distance,
    federation,
    network_task,
    play,
    rows_of,
    same,
    sampled,
    state_of,
)

from unalike import rng, tree
from unalike.federation.data import Examples
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Sgd
from unalike.parts.representation.private import Private
from unalike.parts.topology import Clusters, Complete, Ring
from unalike.tasks import Task

HALF = sampled(0.5, 1.5)
MOMENTUM = {"opt": Sgd(0.05, 0.9, 1e-3)}


@pytest.fixture(params=["conv", "dense"])
def setting(request: pytest.FixtureRequest) -> tuple[Task, Data]:
    """A network with everything in it, and a plain one."""
    return network_task(request.param)


def run(setting: tuple[Task, Data], *methods: Named, rounds: int = 3, **parts: Any) -> Played:
    """A run of the named methods."""
    task, data = setting
    recipe = composed(task, data, *methods, rounds=rounds, **{**HALF, **parts})
    return play(recipe, data, rounds, engine="sequential", batch_size=16)


def test_fedprox_without_a_pull(setting: tuple[Task, Data]) -> None:
    """mu = 0."""
    assert same(run(setting, ("fedprox", {"mu": 0.0})).x, run(setting, "fedavg").x)


def test_adaptive_fedprox_while_losses_fall(setting: tuple[Task, Data]) -> None:
    """From mu = 0 there is nothing to lower."""
    everybody = sampled(1.0)
    adaptive = run(setting, ("fedprox", {"mu": 0.0, "adaptive": True, "patience": 1}), **everybody)
    losses = [float(s.servers[0].term.loss) for s in adaptive.states[1:]]
    assert losses == sorted(losses, reverse=True)
    assert float(adaptive.server.term.coefficient) == 0
    assert same(adaptive.x, run(setting, "fedavg", **everybody).x)


def test_scaffold_in_its_first_round(setting: tuple[Task, Data]) -> None:
    """All control variates are zero; by examples, or by the paper's plain mean."""
    sized = ("scaffold", {"averaging": "size"})
    assert same(run(setting, sized, rounds=1).x, run(setting, "fedavg", rounds=1).x)
    assert not same(run(setting, sized, rounds=3).x, run(setting, "fedavg", rounds=3).x)
    plain = run(setting, "fedavg", rounds=1, mean=Uniform())
    assert same(run(setting, "scaffold", rounds=1).x, plain.x)


@pytest.mark.parametrize("everybody", [True, False])
def test_one_phase(setting: tuple[Task, Data], everybody: bool) -> None:
    """Nobody is in mid-phase."""
    parts = {**(sampled(1.0) if everybody else HALF), **MOMENTUM}
    one = run(setting, ("phase_shift", {"phases": 1}), **parts)
    assert same(one.x, run(setting, "fedavg", **parts).x)


def test_server_without_momentum(setting: tuple[Task, Data]) -> None:
    """beta = 0, rate 1."""
    plain = run(setting, ("fedavgm", {"lr": 1.0, "momentum": 0.0}))
    assert same(plain.x, run(setting, "fedavg").x)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fednova_with_equal_work(momentum: float) -> None:
    """Equal sizes, epochs and batches."""
    task, _ = network_task("conv")
    data = federation(sizes=[16] * 6)
    parts = {"opt": Sgd(0.05, momentum)}
    nova, avg = (run((task, data), name, **parts).x for name in ("fednova", "fedavg"))
    assert distance(nova, avg) < 1e-6


@pytest.mark.parametrize("name", ["superfed_mm", "superfed_lm"])
@pytest.mark.parametrize("network", ["conv", "dense"])
def test_superfed_that_never_mixes(network: str, name: str) -> None:
    """start = 1: FedProx, and without the pull FedAvg, bit for bit."""
    setting = network_task(network, tracked=False)
    never = run(setting, (name, {"start": 1.0, "mu": 0.0, "nu": 0.0}), **MOMENTUM)
    assert same(never.x, run(setting, "fedavg", **MOMENTUM).x)
    never = run(setting, (name, {"start": 1.0, "mu": 0.3, "nu": 5.0}), **MOMENTUM)
    prox = run(setting, ("fedprox", {"mu": 0.3}), **MOMENTUM)
    assert distance(never.x, prox.x) < 1e-6
    assert distance(prox.x, run(setting, "fedavg", **MOMENTUM).x) > 1e-5


@pytest.mark.parametrize("name", ["superfed_mm", "superfed_lm"])
def test_superfed_at_the_federated_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """lambda = mu = nu = 0, also while mixing: FedAvg, and nobody's own model moves."""
    monkeypatch.setattr("unalike.algorithms.superfed.rng.uniform", lambda key, n: torch.zeros(n))
    setting = network_task("dense")
    pinned = run(setting, (name, {"start": 0.0, "mu": 0.0, "nu": 0.0}))
    assert same(pinned.x, run(setting, "fedavg").x)
    still = play(pinned.simulation.recipe, setting[1], 0).simulation
    for i, own in pinned.kept[-1].items():
        assert same(own, state_of(still, i))


def test_fedaug_with_a_target_above_the_skew(setting: tuple[Task, Data]) -> None:
    """Nothing is repeated, so nothing is altered."""
    loose = run(setting, ("fedaug", {"target": 1.99}))
    assert same(loose.x, run(setting, "fedavg").x)
    assert not same(run(setting, ("fedaug", {"target": 0.1})).x, loose.x)


def test_fedaug_does_the_same_work() -> None:
    """An epoch is as many examples as a client has of its own."""
    setting = network_task("dense")
    plain, balanced = (run(setting, m).rounds for m in ("fedavg", ("fedaug", {"target": 0.0})))
    for a, b in zip(plain, balanced, strict=True):
        assert a.worked["samples"] == b.worked["samples"]
        assert torch.equal(a.weights, b.weights)
        assert a.traffic == b.traffic


def test_one_cluster_is_a_star(setting: tuple[Task, Data]) -> None:
    """And so are several that exchange models in every round."""
    star = run(setting, "fedavg").x
    assert distance(star, run(setting, "fedavg", topology=Clusters(1)).x) < 1e-6
    many = run(setting, "fedavg", topology=Clusters(3, period=1))
    for server in many.states[-1].servers:
        assert distance(star, server.x) < 1e-5


def test_rare_exchanges_are_not_a_star() -> None:
    """Between two exchanges the servers are apart; after one they agree."""
    setting = network_task("dense")
    played = run(setting, "fedavg", topology=Clusters(2, period=2), rounds=4, **sampled(1.0))
    apart = [distance(*(s.x for s in state.servers)) for state in played.states[1:]]
    assert apart[0] > 1e-4
    assert apart[1] < 1e-12
    assert apart[2] > 1e-4
    assert apart[3] < 1e-12


@pytest.mark.parametrize("topology", [Ring(), Ring(3), Complete()])
def test_a_complete_graph_is_a_star(topology: Any) -> None:
    """A ring of three, a ring wide enough, and the complete graph itself."""
    task, _ = network_task("conv")
    data = federation(sizes=(5, 16, 40) if topology == Ring() else (5, 9, 16, 20, 30, 40))
    parts = sampled(1.0, 1.5)
    star = run((task, data), "fedavg", **parts).x
    for server in run((task, data), "fedavg", topology=topology, **parts).states[-1].servers:
        assert distance(star, server.x) < 1e-5


def test_a_ring_mixes_neighbours_only() -> None:
    """After one round client 0 has heard of clients 5, 0 and 1, by their sizes."""
    setting = network_task("dense")
    _, data = setting
    ring = run(setting, "fedavg", topology=Ring(), rounds=1, **sampled(1.0))
    alone = run(setting, "local_only", rounds=1, **sampled(1.0))
    n = torch.tensor([float(data.rows.sizes[i]) for i in (5, 0, 1)])
    heard = tree.stack([state_of(alone.simulation, i) for i in (5, 0, 1)])
    assert distance(tree.mean(n / n.sum(), heard), ring.x) < 1e-6


def test_lg_fedavg_that_shares_everything(setting: tuple[Task, Data]) -> None:
    """No leaf is private."""
    task, _ = setting
    everything = {"shared": sorted({n.split(".")[0] + "." for n in task.network.weights})}
    shared = run(setting, ("lg_fedavg", everything))
    assert same(shared.x, run(setting, "fedavg").x)


def test_lg_fedavg_that_shares_nothing_is_local_training(setting: tuple[Task, Data]) -> None:
    """Clients never hear of each other, and nothing is sent."""
    task, _ = setting
    alone = run(setting, "local_only")
    for done in alone.rounds:
        assert done.traffic.total == 0
        assert done.traffic.messages == 0
        assert not done.rejected
    assert alone.loop.recipe.algorithm.model(alone.server, rng.key(0)) is None
    kept = state_of(alone.simulation, int(alone.rounds[0].ids[0]))
    assert kept.keys() == task.init(rng.key(7)).keys()
    assert not same(kept, task.init(rng.key(7)))


def test_local_only_is_plain_training_over_rounds() -> None:
    """A client's model after two rounds starts from the one after the first."""
    setting = network_task("dense")
    once = run(setting, "local_only", rounds=1, **sampled(1.0))
    twice = run(setting, "local_only", rounds=2, **sampled(1.0))
    assert same(once.kept[0], twice.kept[0])
    for i in range(6):
        assert not same(twice.kept[0][i], twice.kept[1][i])


def test_fedep_of_identical_clients() -> None:
    """All hold the same proportions of labels: weights by size."""
    task, _ = network_task("dense")
    sizes = (6, 12, 18)
    n = sum(sizes)
    x = torch.from_numpy(np.random.default_rng(0).random((n, 1, 4, 4))).float()
    y = torch.tensor([i % CLASSES for i in range(n)])
    setting = task, Data(Examples(x, y, CLASSES), rows_of(sizes))
    for mode in ("floor", "raw", "normalised"):
        pooled = run(setting, ("fedep", {"mode": mode, "rho": 0.3}), **sampled(1.0))
        assert distance(pooled.x, run(setting, "fedavg", **sampled(1.0)).x) < 1e-6


def test_equal_sizes_make_weights_equal() -> None:
    """p_k = 1 / n."""
    task, _ = network_task("dense")
    played = run((task, federation(sizes=[10] * 6)), "fedavg")
    assert torch.allclose(played.rounds[0].weights, torch.full((3,), 1 / 3))


def test_one_client_is_ordinary_training(setting: tuple[Task, Data]) -> None:
    """Pooled training and FedAvg over one client are the same thing."""
    task, data = setting
    single = Data(data.examples, rows_of([120]))
    pooled = play(composed(task, data, "pooled", **HALF), single, 2)
    assert same(pooled.x, play(composed(task, single, "fedavg", **sampled(1.0, 1.5)), single, 2).x)


def test_private_buffers_change_no_weight_of_a_round() -> None:
    """Running statistics do not enter training; kept at home they are each client's own."""
    task, data = network_task("conv")
    shared = composed(task, data, "fedavg", **sampled(1.0))
    names = frozenset(task.network.buffers)
    algorithm = replace(shared.algorithm, private=Private(names=names))
    home = play(replace(shared, algorithm=algorithm), data)
    away = play(shared, data)
    assert names
    assert same(home.x, {k: v for k, v in away.x.items() if k not in names})
    assert state_of(home.simulation, 0).keys() == names
    assert not same(state_of(home.simulation, 0), state_of(home.simulation, 5))


def test_epochs_add_up_where_nothing_is_forgotten() -> None:
    """Two rounds of one epoch are as much work as one round of two."""
    task, data = network_task("dense")
    single = Data(data.examples, rows_of([120]))
    for rounds, epochs in ((2, 1.0), (1, 2.0)):
        recipe = composed(task, single, "fedavg", **sampled(1.0, epochs))
        assert sum(r.worked["samples"] for r in play(recipe, single, rounds).rounds) == 240
