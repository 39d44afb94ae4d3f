"""How fast graphs bring models together: eigenvalues that are known, and runs that follow them."""

import time

import numpy as np
import pytest
import torch
from federations import composed, network_task, play

from unalike import tree
from unalike.engine.graph.combine import combine
from unalike.engine.graph.consensus import distance, spectral_gap
from unalike.engine.graph.neighbours import metropolis, proportional, table
from unalike.parts.graphs import Gossip, Random
from unalike.parts.optim import Sgd
from unalike.parts.topology import Complete, Exponential, Ring, Torus


def gap(topology, n, t=0):
    edges = topology.links(t, n)
    return spectral_gap(table(edges, metropolis(edges, n)), n)


@pytest.mark.parametrize("n", [5, 12, 41])
def test_ring(n):
    """The eigenvalues are (1 + 2 cos(2 pi k / n)) / 3."""
    sizes = np.sort(np.abs(1 + 2 * np.cos(2 * np.pi * np.arange(n) / n)) / 3)
    assert gap(Ring(), n) == pytest.approx(1 - sizes[-2], abs=1e-12)


def test_torus():
    """Sums of the cosines along both sides."""
    k, m = np.meshgrid(np.arange(4), np.arange(6))
    waves = (1 + 2 * np.cos(2 * np.pi * k / 4) + 2 * np.cos(2 * np.pi * m / 6)) / 5
    assert gap(Torus(), 24) == pytest.approx(1 - np.sort(np.abs(waves).ravel())[-2], abs=1e-12)


def test_a_million_edges_take_no_time():
    """A thousand nodes that all hear one another: a table of their weights in well under a second.

    One by one the edges take five times as long as all this.
    """
    edges = Complete().links(0, 1000)
    weights = torch.rand(len(edges), generator=torch.Generator().manual_seed(0)).double()
    began = time.process_time()
    found = table(edges, weights)
    assert time.process_time() - began < 0.5
    assert list(found) == list(range(1000))
    assert [found[7][i] for i in range(1000)] == weights[7000:8000].tolist()


def test_complete_and_pairs():
    """One round is enough, or no number of rounds with the same pairs."""
    assert gap(Complete(), 7) == pytest.approx(1)
    assert gap(Gossip(), 8) == pytest.approx(0)


def test_an_exponential_graph_mixes_as_published():
    """The gap is 2 / (1 + log2 n) for even n (Ying et al. 2021, Prop. 1)."""
    for n in (4, 16, 64):
        assert gap(Exponential(), n) == pytest.approx(2 / (1 + np.ceil(np.log2(n))), abs=1e-9)


def test_one_peer_graphs_reach_the_exact_mean():
    """After log2 n rounds, if n is a power of two (Ying et al. 2021, Lemma 1)."""
    x = {"w": torch.rand(16, 3, dtype=torch.float64)}
    mean = x["w"].mean(0)
    for t in range(4):
        edges = Exponential(one_peer=True).links(t, 16)
        assert len(edges) == 32
        x = combine(x, edges, proportional(edges, torch.ones(16, dtype=torch.float64)))
    torch.testing.assert_close(x["w"], mean.expand(16, 3))


@pytest.mark.parametrize("topology", [Ring(), Torus(), Random("regular", degree=4), Exponential()])
def test_distance_falls_as_the_gap_says(topology):
    """At most by 1 - gap a round, and in the long run by exactly that."""
    n = 36
    edges = topology.links(0, n)
    weights = metropolis(edges, n)
    rate = 1 - spectral_gap(table(edges, weights), n)
    x = {"w": torch.rand(n, 50, dtype=torch.float64)}
    apart = [distance(x)]
    for _ in range(40):
        x = combine(x, edges, weights)
        apart.append(distance(x))
    falls = np.array(apart[1:]) / np.array(apart[:-1])
    if not isinstance(topology, Exponential):  # whose matrix is not symmetric
        assert (falls <= rate + 1e-9).all()
    assert (apart[40] / apart[20]) ** (1 / 20) == pytest.approx(rate, abs=0.03)


def test_of_a_run():
    """With a rate of nearly nothing, what is left of a distance after a round is the graph's."""
    task, data = network_task("dense", torch.float64)
    made = composed(task, data, topology=Ring(weights="metropolis"), opt=Sgd(1e-12))
    played = play(made, data, 0)
    (state,) = played.states
    stack = tree.map(lambda v: v + torch.rand(v.shape, dtype=v.dtype), state.stack)
    before = distance(stack.x)
    after, done = played.loop.advance(state._replace(stack=stack), 0)
    assert 0 < distance(after.stack.x) <= (1 - spectral_gap(done.mixed, 6) + 1e-9) * before


def test_a_given_distance():
    """Models 0 and 2 are 1 from their mean in each of four entries."""
    apart = torch.tensor([[0.0] * 4, [2.0] * 4])
    assert distance({"w": apart}) == pytest.approx(2.0)
    assert distance({"nothing": torch.zeros(2, 0), "w": apart}) == pytest.approx(2.0)


def by_size(topology, n, spread):
    """The combination on a graph whose clients have unequal numbers of examples."""
    draw = torch.Generator().manual_seed(n)
    sizes = 10.0 + spread * torch.rand(n, generator=draw)
    edges = topology.links(0, n)
    return table(edges, proportional(edges, sizes))


@pytest.mark.parametrize("topology", [Ring(), Ring(neighbours=3), Random(probability=0.2)])
def test_weights_by_size(topology):
    """Not symmetric; eigenvalues of NumPy."""
    mixed = by_size(topology, 80, 500.0)
    a = np.zeros((80, 80))
    for j, row in mixed.items():
        a[j, list(row)] = list(row.values())
    sizes = np.sort(np.abs(np.linalg.eigvals(a)))
    assert spectral_gap(mixed, 80) == pytest.approx(1 - sizes[-2], abs=1e-6)


def test_weights_by_size_among_a_thousand():
    """By default neighbours weigh by size, and nobody has to do without the gap for that."""
    found = spectral_gap(by_size(Random(probability=0.02), 1000, 0.0), 1000)
    assert 0.5 < found < 0.75  # of 20 neighbours on average about 1 - 2 / sqrt(20)
    assert spectral_gap(by_size(Exponential(), 501, 9.0), 501) is None  # links lead one way


def test_too_many_to_tell():
    assert spectral_gap({}, 2001) is None
    assert spectral_gap({}, 1) is None


@pytest.mark.parametrize("seed", range(3))
def test_metropolis_weights_keep_the_mean(seed):
    """Rows and columns add up to one, whatever the graph and whichever links are lost."""
    n = 15
    for topology in (Random(probability=0.3, seed=seed), Random(link_loss=0.5, seed=seed)):
        edges = topology.links(2, n)
        a = np.zeros((n, n))
        a[tuple(edges.T.numpy())] = metropolis(edges, n)
        np.testing.assert_allclose(a.sum(0), 1)
        np.testing.assert_allclose(a.sum(1), 1)
        assert (a >= 0).all()
