"""SCAFFOLD without a server: gradient tracking on parabolas, and beside SCAFFOLD itself."""

import numpy as np
import pytest
import torch
from federations import Quadratic, at, composed, distance, network_task, play, sampled, scalars

from unalike import tree
from unalike.engine.graph.neighbours import metropolis
from unalike.errors import ConfigError
from unalike.parts.graphs import Random
from unalike.parts.optim import Sgd
from unalike.parts.topology import Clusters, Complete, Exponential, Ring, Torus

MINIMA = [0.0, 1.0, 5.0, -3.0, 7.0]


def by_hand(minima, w, eta, steps, rounds):
    """Algorithm 1 on parabolas 1/2 (x - m)^2 with plain numbers: all models after every round."""
    m = np.array(minima)
    x, c, out = np.zeros(len(m)), np.zeros(len(m)), []
    for _ in range(rounds):
        y = x.copy()
        for _ in range(steps):
            y = y - eta * (y - m + c)
        z = (x - y) / (steps * eta)
        c = c - z + w @ z
        x = w @ y
        out.append(x.copy())
    return out


def models(played):
    return [float(s.x["w"]) for s in played.states[-1].servers]


def run(topology, rounds, method="scaffold", epochs=3.0):
    data = scalars(MINIMA)
    parts = {"opt": Sgd(0.1), "epochs": epochs}
    made = composed(Quadratic(), data, method, topology=topology, rounds=rounds, **parts)
    return play(made, data, rounds, at(w=0.0), batch_size=1)


def test_oracle_on_a_ring():
    """Three steps a round on five parabolas."""
    ring = np.zeros((5, 5))
    for j in range(5):
        ring[j, [j, (j - 1) % 5, (j + 1) % 5]] = 1 / 3
    wanted = by_hand(MINIMA, ring, 0.1, 3, 4)
    assert models(run(Ring(), 4)) == pytest.approx(wanted[-1], rel=1e-6)


def test_oracle_on_an_irregular_graph():
    """Metropolis weights of the path that is left of a ring whose nodes have unequal degrees."""
    graph = Random(probability=0.5, seed=1)
    edges = graph.links(0, 5).tolist()
    degree = {j: sum(a == j != b for a, b in edges) for j in range(5)}
    assert len(set(degree.values())) > 1
    w = np.zeros((5, 5))
    for j, i in edges:
        if i != j:
            w[j, i] = 1 / (1 + max(degree[j], degree[i]))
    w += np.diag(1 - w.sum(1))
    assert models(run(graph, 3)) == pytest.approx(by_hand(MINIMA, w, 0.1, 3, 3)[-1], rel=1e-6)


@pytest.mark.parametrize("graph", [Ring(), Torus(), Random("regular", degree=4), Exponential()])
@pytest.mark.parametrize("n", [12, 16, 30])
def test_oracle_where_links_are_few(graph, n):
    """On large graphs models are summed in their own places, and directions must not be."""
    edges, minima = graph.links(0, n), np.random.default_rng(n).normal(size=n) * 5
    w = np.zeros((n, n))
    w[tuple(edges.T.numpy())] = metropolis(edges, n)
    data, parts = scalars(minima.tolist()), {"opt": Sgd(0.1), "epochs": 3.0}
    made = composed(Quadratic(), data, "scaffold", topology=graph, rounds=4, **parts)
    found = play(made, data, 4, at(w=0.0), batch_size=1)
    assert models(found) == pytest.approx(by_hand(minima, w, 0.1, 3, 4)[-1], rel=1e-5, abs=1e-5)
    assert max(abs(float(s.c["w"])) for s in found.states[-1].servers) > 0.1


def test_every_model_comes_to_rest_at_the_mean():
    """Plain averaging stays apart: every node is drawn to its own minimum."""
    assert models(run(Ring(), 300)) == pytest.approx([2.0] * 5, abs=1e-6)
    assert np.ptp(models(run(Ring(), 300, "fedavg"))) > 0.5


def test_a_complete_graph_is_scaffold():
    """With everybody in every round."""
    task, data = network_task("dense", torch.float64)
    star = play(composed(task, data, "scaffold", **sampled(1.0, 2.0)), data)
    graph = play(composed(task, data, "scaffold", topology=Complete(), **sampled(1.0, 2.0)), data)
    for server in graph.states[-1].servers:
        assert distance(star.x, server.x) < 1e-10


def test_corrections_add_up_to_nothing():
    """Also where half of the clients sleep and links are lost."""
    task, data = network_task("conv", torch.float64)
    graph = Random(probability=0.7, link_loss=0.3)
    played = play(composed(task, data, "scaffold", topology=graph, **sampled(0.7)), data, 5)
    total = tree.map(lambda c: c.sum(0), played.states[-1].stack.c)
    assert float(tree.sqnorm(total)) < 1e-20
    assert float(tree.sqnorm(played.states[-1].stack.c)) > 1e-6


def test_both_engines_agree():
    task, data = network_task("conv", torch.float64)
    recipe = composed(task, data, "scaffold", topology=Ring(), **sampled(0.7))
    one, all_ = (play(recipe, data, 3, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.states[-1], all_.states[-1]) < 1e-9


def test_two_vectors_go_to_every_neighbour():
    task, data = network_task("dense")
    played = play(composed(task, data, "scaffold", topology=Ring()), data, 1)
    assert played.rounds[0].traffic.across == 12 * 2 * tree.size_bytes(played.x)


@pytest.mark.parametrize(
    ("methods", "topology", "message"),
    [
        (["scaffold"], Clusters(2), "cannot run on topology 'clusters': each server would need"),
        ([("scaffold", {"averaging": "size"})], Ring(), "leave averaging = 'size' out"),
        (["scaffold", "feddisco"], Ring(), "metropolis.*drop one of them"),
        (["fedep"], Ring(weights="metropolis"), "replaces its weights; drop one of them"),
    ],
)
def test_what_does_not_go_together(methods, topology, message):
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=message):
        composed(task, data, *methods, topology=topology)
