"""Graphs that are given in Python: of networkx, or pairs in any form."""

import networkx as nx
import numpy as np
import pytest
import torch

import unalike


def test_a_graph_of_networkx_is_a_topology():
    """As pairs in the configuration: the same models, and a record that can be repeated."""
    digits = unalike.federate("digits", {"name": "iid", "clients": 4})
    ring = nx.cycle_graph(4)
    table = {"name": "graph", "edges": [list(e) for e in ring.edges]}
    one, other, named = (
        unalike.train(digits, "logistic", rounds=2, topology=t) for t in (ring, table, "ring")
    )
    for result in (other, named):
        for k in range(4):
            pairs = zip(one.personal(k).parameters(), result.personal(k).parameters(), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs)


def test_edges_may_be_tuples_rows_and_numbers_of_numpy():
    """However a program comes by them; parallel edges are one."""
    digits = unalike.federate("digits", {"name": "iid", "clients": 3})
    path = nx.Graph([(np.int64(0), np.int64(1)), (np.int64(1), np.int64(2))])
    twice = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    given = [[(0, 1), (1, 2)], np.array([[0, 1], [1, 2]])]
    for topology in [path, twice, *({"name": "graph", "edges": e} for e in given)]:
        found = unalike.train(digits, "logistic", rounds=1, topology=topology)
        assert found.rounds[0]["messages"] == 4


def test_graphs_that_would_not_be_heard_as_they_are_given():
    digits = unalike.federate("digits", {"name": "iid", "clients": 3})
    lonely = nx.path_graph(2)
    lonely.add_node(2)
    refused = [
        (nx.DiGraph([(0, 1), (1, 2), (2, 0)]), "from 0 to 1 and none back"),
        (lonely, "has a node 2 without an edge"),
        ({"name": "graph", "edges": 3}, "'topology.edges' must be a list of lists"),
        (nx.Graph([("a", "b"), ("b", "c")]), "'topology.edges' must be a list of lists"),
    ]
    for topology, message in refused:
        with pytest.raises(unalike.ConfigError, match=message):
            unalike.train(digits, "logistic", rounds=1, topology=topology)
