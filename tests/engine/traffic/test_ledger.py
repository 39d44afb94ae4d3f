"""Bytes and messages, counted where they are sent."""

from typing import Any

import pytest
import torch
from federations import composed, federation, network_task, play, sampled

from unalike import rng, tree
from unalike.algorithms.fedavg import FedAvg
from unalike.engine.traffic.ledger import parameters
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.private import Private
from unalike.parts.topology import Clusters, Complete, Ring, Topology
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import conclusion, rounds
from unalike.tasks import MultiClass

FULL = sampled(1.0)


def model_bytes(network: str = "dense") -> int:
    """Weights and buffers of the initial model."""
    task, _ = network_task(network)
    return tree.size_bytes(task.init(rng.key(7)))


def first(*methods: Any, network: str = "dense", **parts: Any):
    """The traffic of the first round."""
    task, data = network_task(network)
    return play(composed(task, data, *methods, **{**FULL, **parts}), data, 1).rounds[0].traffic


def test_fedavg() -> None:
    """A model each way and two numbers per answer: examples and steps."""
    m = model_bytes()
    found = first("fedavg")
    assert found == (6 * m, 6 * (m + 8), 0, 12)
    assert found.total == 12 * m + 48


def test_buffers_travel_too() -> None:
    """And counters of batches do not."""
    task, _ = network_task("conv")
    floats = 3 * 9 + 3 + 3 + 3 + 3 + 3 + 48 * 3 + 3  # kernel, bias, scale, shift, statistics, head
    assert model_bytes("conv") == 4 * floats
    assert first("fedavg", network="conv").down == 6 * 4 * floats
    assert set(task.network.buffers) == {"1.running_mean", "1.running_var"}


def test_extras_of_methods() -> None:
    """SCAFFOLD sends two vectors, FedProx a coefficient, AAggFF a loss."""
    m = model_bytes()
    assert first("scaffold")[:2] == (12 * m, 6 * (2 * m + 8))
    assert first("fedprox")[:2] == (6 * (m + 4), 6 * (m + 8))
    assert first("aaggff_d")[:2] == (6 * m, 6 * (m + 12))


def test_fewer_clients_send_less() -> None:
    """Half the clients, half the bytes."""
    half, whole = first("fedavg", **sampled(0.5)), first("fedavg")
    assert half.total * 2 == whole.total
    assert half.messages * 2 == whole.messages


def test_a_survey_is_paid_once() -> None:
    """Two parts of three numbers each, and the size, from six clients."""
    task, data = network_task("dense")
    loop = play(composed(task, data, "fedep"), data, 0).loop
    assert loop.asked.total == 6 * 4 * (2 * 3 + 1)
    assert play(composed(task, data, "fedavg"), data, 0).loop.asked.total == 0


@pytest.mark.parametrize(
    ("topology", "hops"), [(Ring(), 12), (Ring(2), 24), (Complete(), 30), (Clusters(3), 6)]
)
def test_between_servers(topology: Topology, hops: int) -> None:
    """A model over every link, none to oneself."""
    found = first("fedavg", topology=topology)
    assert found.across == hops * model_bytes()
    local = not isinstance(topology, Clusters)
    assert found.messages == hops + (0 if local else 12)
    assert (found.down == found.up == 0) == local


def test_sleeping_clients_of_a_ring_send_nothing() -> None:
    """A link is used only if both ends take part."""
    task, data = network_task("dense")
    played = play(composed(task, data, "fedavg", topology=Ring(), **sampled(0.5)), data, 8)
    for done in played.rounds:
        awake = set(done.ids.tolist())
        links = sum((i + d) % 6 in awake for i in awake for d in (1, -1))
        assert done.traffic.across == links * model_bytes()
        assert done.traffic.messages == links


def test_silent_servers_send_nothing_but_hear() -> None:
    """Three servers, two clients a round: only those with answers speak."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", topology=Clusters(3), **sampled(0.34))
    played = play(recipe, data, 8)
    for done in played.rounds:
        speaking = {i % 3 for i in done.ids.tolist()}
        assert done.traffic.across == len(speaking) * 2 * model_bytes()
        assert done.traffic.messages == 4 + len(speaking) * 2


def test_a_server_that_slept_through_an_exchange_has_heard_it() -> None:
    """All servers hold the same model after it."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", topology=Clusters(3), **sampled(0.34))
    for state in play(recipe, data, 3).states[1:]:
        first_, *others = (s.x for s in state.servers)
        assert all(torch.equal(first_[k], o[k]) for o in others for k in first_)


def test_a_sleeping_client_of_a_ring_keeps_its_model() -> None:
    """It neither trains nor listens."""
    task, data = network_task("dense")
    played = play(composed(task, data, "fedavg", topology=Ring(), **sampled(0.5)), data, 1)
    before, after = played.states
    awake = set(played.rounds[0].ids.tolist())
    for i in range(6):
        still = all(torch.equal(after.servers[i].x[k], v) for k, v in before.servers[i].x.items())
        assert still == (i not in awake)


def test_local_training_costs_nothing() -> None:
    """Not even a message."""
    assert first("local_only") == (0, 0, 0, 0)


def test_precision_counts() -> None:
    """Eight bytes for a double."""
    task, _ = network_task("dense", torch.float64)
    data = federation(dtype=torch.float64)
    found = play(composed(task, data, "fedavg"), data, 1).rounds[0].traffic
    assert found.down == 6 * 2 * model_bytes()


def test_parameters_by_both_rules() -> None:
    """LG-FedAvg's perceptron, 10 of 100 devices: 20 messages a round, or 110 (O-16's two rules)."""
    task = MultiClass(Network(MODELS["lg_mlp"]().build((1, 28, 28), 10)))
    w = task.network.given()
    lg = FedAvg(task, private=Private(("classifier.",), others=True))
    for algorithm, numbers in ((FedAvg(task), 633_226), (lg, 99_978)):
        down = algorithm.broadcast(algorithm.server_init(w, rng.key(0)))
        found = parameters(algorithm, tree.stack([down]), 10, 100, 10)
        assert found == {"parameters": 20 * numbers, "parameters_all": 110 * numbers}
    assert parameters(lg, tree.stack([down]), 0, 100, 10)["parameters_all"] == 0


def test_a_run_sums_both() -> None:
    raw = {
        "rounds": 2,
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 4},
        "participation": {"number": 1},
        "model": {"name": "mlp", "hidden": []},
    }
    made = experiment(parse(raw))
    records = [step.record for step in rounds(made)]
    summary = conclusion(made, records)
    numbers = 64 * 10 + 10
    assert summary["parameters"] == 2 * 2 * numbers
    assert summary["parameters_all"] == 2 * 5 * numbers
