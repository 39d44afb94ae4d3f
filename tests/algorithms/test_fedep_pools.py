"""Whose labels FedEP pools in each topology."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import Data, composed, play, rows_of
from torch import Tensor

from unalike.federation.data import Examples
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.graphs import Random
from unalike.parts.mixing.entropy_pool import divergences, pool
from unalike.parts.topology import Clusters, Complete, Ring, Rotating, Star
from unalike.tasks import MultiClass

A = np.repeat(np.arange(10), 10)


B = np.repeat([0, 1, 2], [50, 30, 20])


C = np.repeat([7, 8, 9], [10, 30, 60])


THREE = (A, B, C)


TEN = MultiClass(Network(MODELS["mlp"](hidden=[6]).build((1, 4, 4), 10)))


@pytest.fixture(scope="module")
def three() -> Data:
    """The clients A, B, C and one like A."""
    labels = np.concatenate([*THREE, A])
    x = np.random.default_rng(0).random((400, 1, 4, 4))
    examples = Examples(torch.from_numpy(x).float(), torch.from_numpy(labels), 10)
    return Data(examples, rows_of([100] * 4))


def pooled(played, known: list[int], ids: list[int], labels: Tensor, mode: str) -> Tensor:
    """The weights by the formula, from what a node holds."""
    told = played.states[0].survey
    n = told["size"][known][:, 0]
    a = torch.zeros(4, dtype=torch.float64)
    a[known] = pool(divergences(told["label_mixture"][known], n, labels, mode), n)
    return a[ids] / a[ids].sum()


@pytest.mark.parametrize(
    ("topology", "heard"),
    [
        (Ring(), {0: [0, 1, 3], 1: [0, 1, 2], 2: [1, 2, 3], 3: [0, 2, 3]}),
        (Complete(), {j: [0, 1, 2, 3] for j in range(4)}),
        (Random(probability=1.0), {j: [0, 1, 2, 3] for j in range(4)}),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_every_node_pools_what_it_holds(three, topology, heard, own):
    """Its own and its neighbours' mixtures, at all labels or at its own."""
    settings = {"mode": "listing", "label_set": "own" if own else "global"}
    recipe = composed(TEN, three, ("fedep", settings), topology=topology)
    played = play(recipe, three, 1, batch_size=50)
    start = played.states[0].servers[0].x
    alone = [s.x for s in _before_combining(recipe, three)]
    for j, ids in heard.items():
        labels = np.unique((*THREE, A)[j]) if own else np.arange(10)
        a = pooled(played, ids, ids, torch.from_numpy(labels), "listing")
        name = next(iter(start))
        expected = sum(float(w) * alone[i][name] for w, i in zip(a, ids, strict=True))
        assert torch.allclose(played.states[1].servers[j].x[name], expected, atol=1e-5), j
    if own:
        first, second = (played.states[1].servers[j].x[name] for j in (0, 1))
        assert not torch.allclose(first, second)


def _before_combining(recipe, data):
    """Every node's own model after its own training: nobody hears anybody."""

    class Deaf(type(recipe.topology)):
        def links(self, t, n):
            return None

    return play(replace(recipe, topology=Deaf()), data, 1, batch_size=50).states[1].servers


def test_rotating_aggregators_use_their_own_labels(three):
    """Client t is the server of round t; with global labels nothing but the traffic rotates."""
    for label_set in ("global", "own"):
        settings = {"mode": "listing", "label_set": label_set}
        recipe = composed(TEN, three, ("fedep", settings), topology=Rotating())
        played = play(recipe, three, 3, batch_size=50)
        for t, done in enumerate(played.rounds):
            labels = np.unique(THREE[t]) if label_set == "own" else np.arange(10)
            everybody = [0, 1, 2, 3]
            a = pooled(played, everybody, everybody, torch.from_numpy(labels), "listing")
            assert torch.allclose(done.weights.double(), a, atol=1e-6)


def test_edge_servers_pool_their_own_clients(three):
    """Two servers of two clients each: weights sum to one in either."""
    played = play(composed(TEN, three, "fedep", topology=Clusters(2)), three, 1, batch_size=50)
    found = played.rounds[0].weights.double()
    for clients in ([0, 2], [1, 3]):
        a = pooled(played, clients, clients, torch.arange(10), "floor")
        assert torch.allclose(found[clients], a, atol=1e-6)


def test_star_knows_everybody(three):
    """The same as a complete graph with global labels: one set of weights for all."""
    star, complete = (
        play(composed(TEN, three, "fedep", topology=t), three, 2, batch_size=50)
        for t in (Star(), Complete())
    )
    for server in complete.states[-1].servers:
        for name, x in star.x.items():
            assert torch.allclose(server.x[name], x, atol=1e-5)
