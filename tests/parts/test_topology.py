"""Graphs without a server, and a server whose role goes round."""

import networkx as nx
import pytest
import torch
from federations import composed, distance, federation, network_task, play, sampled
from hypothesis import given
from hypothesis import strategies as st

from unalike import tree
from unalike.engine.traffic.ledger import survey_traffic
from unalike.errors import ConfigError
from unalike.parts.graphs import Given, Gossip, Random
from unalike.parts.topology import Clusters, Complete, Ring, Rotating, Star, Torus
from unalike.run.configuration.config import parse
from unalike.run.configuration.graph_file import listed_graph, read_graph
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds


def graph(topology, n):
    edges = topology.links(0, n)
    assert torch.equal(edges[:, 0], edges[:, 0].sort().values)
    pairs = set(map(tuple, edges.tolist()))
    assert len(pairs) == len(edges)
    assert {(j, j) for j in range(n)} <= pairs
    assert {(i, j) for j, i in pairs} == pairs
    found = nx.Graph([(j, i) for j, i in pairs if j < i])
    found.add_nodes_from(range(n))
    return found


def test_complete():
    """Everybody hears everybody."""
    assert graph(Complete(), 7).number_of_edges() == 21


@given(st.integers(2, 25), st.floats(0.4, 1), st.integers(0, 5))
def test_erdos_renyi(n, probability, seed):
    """Connected, the same for the same seed and in every round."""
    topology = Random(probability=probability, seed=seed)
    assert nx.is_connected(graph(topology, n))
    assert torch.equal(topology.links(0, n), topology.links(9, n))


def test_erdos_renyi_has_the_wanted_density():
    """Over many seeds; another seed is another graph."""
    edges = [graph(Random(probability=0.5, seed=s), 20).number_of_edges() for s in range(40)]
    assert sum(edges) / 40 == pytest.approx(95, abs=5)
    assert len(set(edges)) > 5


@pytest.mark.parametrize(("n", "degree"), [(10, 3), (9, 4), (6, 5), (5, 2)])
def test_regular(n, degree):
    """Equally many neighbours for everybody, connected."""
    found = graph(Random("regular", degree=degree), n)
    assert {d for _, d in found.degree} == {degree}
    assert nx.is_connected(found)


@pytest.mark.parametrize("kind", ["regular", "small_world"])
@pytest.mark.parametrize("n", [7, 8])
def test_the_kind_alone_is_enough(kind, n):
    """The degree that nobody set fits even and odd numbers of clients."""
    assert len(Random(kind).links(0, n)) == n * (1 + 4)


def test_small_world():
    """A ring of degree k without shortcuts; with them as many edges, and shorter ways."""
    ring = graph(Random("small_world", degree=4, rewire=0.0), 20)
    assert nx.utils.graphs_equal(ring, graph(Ring(2), 20))
    world = graph(Random("small_world", degree=4, rewire=0.3), 20)
    assert world.number_of_edges() == ring.number_of_edges()
    ways = nx.average_shortest_path_length
    assert ways(world) < ways(ring)


def test_torus():
    """Four neighbours for everybody: networkx's own grid without a border."""
    wanted = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 5, periodic=True), 0, "sorted")
    assert nx.utils.graphs_equal(graph(Torus(), 15), nx.Graph(wanted))
    assert nx.is_isomorphic(graph(Torus(rows=5), 15), wanted)


def test_graphs_that_are_drawn_again():
    """The same for ``redraw`` rounds, then another, and always the same for a seed."""
    topology = Random("regular", degree=4, redraw=3)
    drawn = [topology.links(t, 12) for t in range(6)]
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[2], drawn[3])
    assert torch.equal(drawn[5], Random("regular", degree=4, redraw=3).links(5, 12))


def test_gossip():
    """Pairs, other ones in the next round; of an odd number one stays alone."""
    met = [graph(topology, 9) for topology in (Gossip(), Gossip(seed=1))]
    assert all(sorted(d for _, d in g.degree) == [0] + [1] * 8 for g in met)
    assert not torch.equal(Gossip().links(0, 9), Gossip().links(1, 9))


def test_lost_links():
    """Both ways, another set every round, as many as they should be; nobody loses himself."""
    topology = Complete(link_loss=0.3)

    def left(t):
        pairs = set(map(tuple, topology.links(t, 40).tolist()))
        assert {(i, j) for j, i in pairs} == pairs
        assert {(j, j) for j in range(40)} <= pairs
        return pairs

    found = [left(t) for t in range(5)]
    assert found[0] != found[1]
    assert sum(len(f) - 40 for f in found) / (5 * 40 * 39) == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("text", ["0 1\n1,2 # a comment\n\n2 3\n", "0 1\n2 1\n3 2\n0 0\n"])
def test_a_graph_from_lines(text, tmp_path):
    (tmp_path / "g.txt").write_text(text)
    assert read_graph(str(tmp_path / "g.txt")) == ((0, 1), (1, 2), (2, 3))


@pytest.mark.parametrize("form", ["gml", "graphml"])
def test_a_graph_as_networkx_writes_it(form, tmp_path):
    wanted = nx.cycle_graph(5)
    getattr(nx, f"write_{form}")(wanted, tmp_path / f"g.{form}")
    topology = Given(read_graph(str(tmp_path / f"g.{form}")))
    assert nx.utils.graphs_equal(graph(topology, 5), wanted)


NAMED = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="north"/><node id="south"/><edge source="north" target="south"/></graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.txt", "0 1\n1 x\n", r"line 2 of '.*g.txt' must be two client numbers .* got '1 x'"),
        ("g.txt", "0 1\n1 2 3\n", "line 2 .* must be two client numbers"),
        ("g.txt", "# nothing\n", "has no edge"),
        ("g.txt", "0 1\n1 3\n", "up to 3 but no node 2; number the clients"),
        ("g.txt", "0 1\n2 3\n", "falls into 2 parts"),
        ("g.gml", "nothing", "is not a graph in GML"),
        ("g.graphml", "nothing", "is not a graph of client numbers in GraphML"),
        ("g.graphml", NAMED, "is not a graph of client numbers in GraphML"),
    ],
)
def test_files_that_are_no_graph(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_graph(str(tmp_path / name))


@pytest.mark.parametrize("form", ["gml", "graphml"])
def test_edges_of_a_file_lead_both_ways(form, tmp_path):
    """Both directions are an edge; one is a wish that would not be heard."""
    file = tmp_path / f"g.{form}"
    getattr(nx, f"write_{form}")(nx.path_graph(3).to_directed(), file)
    assert read_graph(str(file)) == ((0, 1), (1, 2))
    getattr(nx, f"write_{form}")(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), file)
    with pytest.raises(ConfigError, match=r"from 0 to 1 and none back, .*; give an undirected"):
        read_graph(str(file))


def test_a_graph_from_pairs():
    assert listed_graph([[1, 0], [1, 2]]) == ((0, 1), (1, 2))
    with pytest.raises(ConfigError, match=r"pairs of client numbers such as .* got \[0, 1, 2\]"):
        listed_graph([[0, 1, 2]])
    with pytest.raises(ConfigError, match=r"topology\.edges has nodes up to 2 but no node 1"):
        listed_graph([[0, 2]])


@pytest.mark.parametrize("n", [2, 4])
def test_nodes_and_clients_are_the_same(n):
    """One too many, and one that nobody would ever hear."""
    with pytest.raises(ConfigError, match=rf"but clients are numbered 0 to {n - 1}; change"):
        Given(((0, 1), (1, 2))).graph(0, n)


def test_no_file():
    with pytest.raises(ConfigError, match=r"no file 'nowhere'; set topology\.path"):
        read_graph("nowhere")


def test_through_a_cloud():
    """The same models as from server to server, over a link up and one down for each."""
    task, data = network_task("dense")
    made = [composed(task, data, "fedavg", topology=Clusters(3, 2, cloud)) for cloud in (0, 1)]
    direct, cloud = (play(recipe, data, 4) for recipe in made)
    assert distance(direct.x, cloud.x) == 0
    size = tree.size_bytes(cloud.x)
    assert [r.traffic.across // size for r in direct.rounds] == [0, 6, 0, 6]
    assert [r.traffic.across // size for r in cloud.rounds] == [0, 6, 0, 6]
    four = play(composed(task, data, "fedavg", topology=Clusters(4, 1, True)), data, 1)
    assert four.rounds[0].traffic.across // size == 8


def test_nobody_can_change_a_graph_that_is_kept():
    """Links are a copy."""
    topology = Random(probability=0.9)
    topology.links(0, 5).zero_()
    assert topology.links(0, 5).any()


@pytest.mark.parametrize(
    ("topology", "n", "message"),
    [
        (Random("regular", degree=3), 5, "no graph in which each of 5 clients has 3 neighbours"),
        (Random("regular", degree=3), 5, "degree or the number of clients must be even.$"),
        (Random("regular", degree=6), 6, "must be below the number of clients.$"),
        (Random("small_world", degree=2), 1, "each of 1 client has 2 neighbours; .* below the"),
        (Random(probability=0.001), 30, r"connected in 100 draws; raise topology\.probability"),
        (Random("regular", degree=1), 4, r"raise topology\.degree"),
        (Random("small_world", degree=3), 8, "topology.degree must be even.$"),
        (Ring(), 2, "at least 3 clients, not 2; use topology 'complete'"),
        (Torus(), 2, "a torus does not fit 2 clients, .* use topology 'complete'"),
        (Torus(), 7, "a torus does not fit 7 clients, .* use topology 'ring'"),
        (Torus(rows=2), 12, r"topology.rows = 2 does not fit 12 clients.* rows may be 3, 4"),
        (
            Given(((0, 9),), "the graph in 'g'"),
            5,
            "in 'g' has a node 9, but clients are numbered 0 to 4",
        ),
    ],
)
def test_impossible_graphs(topology, n, message):
    """Said in one sentence, before anything runs."""
    with pytest.raises(ConfigError, match=message):
        topology.links(0, n)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "random", "degree": 6}, 'degree belongs to kind = "regular" or "small_world"'),
        ({"name": "random", "kind": "regular", "probability": 0.5}, 'belongs to kind = "erdos'),
        ({"name": "random", "probability": 0.0}, "a number above 0, up to 1"),
        ({"name": "complete", "neighbours": 2}, "unknown complete setting 'neighbours'"),
    ],
)
def test_bad_settings(settings, message):
    """Settings of the other kind of graph are refused."""
    with pytest.raises(ConfigError, match=message):
        parse({"topology": settings})


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "complete"},
        {"name": "random", "kind": "regular", "degree": 2},
        {"name": "random", "probability": 0.6, "seed": 3},
        {"name": "rotating"},
        {"name": "exponential", "one_peer": True, "weights": "metropolis"},
        {"name": "gossip", "link_loss": 0.2},
    ],
)
def test_from_a_configuration(settings):
    """By name, and for two rounds."""
    raw = {"partition": {"name": "iid", "clients": 5}, "topology": settings, "rounds": 2}
    made = experiment(parse(raw))
    *_, last = rounds(made)
    assert last.record["bytes_across"] > 0


def run(topology, method="fedavg", fraction=1.0):
    task, data = network_task("dense")
    return play(composed(task, data, method, topology=topology, **sampled(fraction)), data, 3)


def test_a_complete_graph_is_a_star():
    """With all clients in every round: each node averages what the server would."""
    star, complete = run(Star()), run(Complete())
    for server in complete.states[-1].servers:
        assert distance(star.x, server.x) < 1e-6


def test_rotating_is_a_star():
    """The same numbers, another wire."""
    star, rotating = run(Star(), "fedadam", 0.5), run(Rotating(), "fedadam", 0.5)
    assert distance(star.server, rotating.server) == 0
    assert star.rounds[-1].traffic != rotating.rounds[-1].traffic


def test_traffic_of_graphs():
    """Every edge carries a model each way, every round."""
    for topology, edges in ((Complete(), 15), (Random("regular", degree=3), 9), (Ring(), 6)):
        played = run(topology)
        size = tree.size_bytes(played.x)
        for done in played.rounds:
            assert done.traffic.across == 2 * edges * size
            assert done.traffic.messages == 2 * edges
            assert done.traffic.up == done.traffic.down == 0


def test_traffic_of_a_rotating_server():
    """Nobody sends to himself; a new host is handed the server's whole state."""
    played = run(Rotating(), "fedadam")
    size, state = tree.size_bytes(played.x), tree.size_bytes(played.states[0].servers)
    assert state > 2 * size  # Adam's moments
    for t, done in enumerate(played.rounds):
        assert done.traffic.down == 5 * size
        assert done.traffic.up == 5 * (size + 2 * 4)
        assert done.traffic.across == (state if t else 0)
        assert done.traffic.messages == 10 + (1 if t else 0)


def test_a_host_that_does_not_take_part_still_serves():
    """All clients of the round are others."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", topology=Rotating(), **sampled(0.5))
    played = play(recipe, data, 6)
    size = tree.size_bytes(played.x)
    counts = [len(r.ids) - int(t in r.ids.tolist()) for t, r in enumerate(played.rounds)]
    assert {2, 3} == set(counts)
    assert [r.traffic.down for r in played.rounds] == [c * size for c in counts]


ANSWERS = {"a": torch.zeros(6, 2), "b": torch.zeros(6, 1, dtype=torch.uint8)}  # 9 bytes each


@pytest.mark.parametrize(
    ("topology", "down", "up", "across", "messages"),
    [
        (Star(), 6 * 100, 6 * 9, 0, 12),
        (Clusters(2), 6 * 100, 6 * 9, 6 * 9, 14),  # three answers each way between two servers
        (Ring(), 0, 0, 12 * 9 + 5 * 100, 12 + 5),
        (Complete(), 0, 0, 30 * 9 + 5 * 100, 30 + 5),
        (Rotating(), 0, 0, 30 * 9 + 5 * 100, 30 + 5),
    ],
)
def test_traffic_of_a_survey(topology, down, up, across, messages):
    """Every server gets the answers of everybody it will ever mix; a payload reaches all."""
    found = survey_traffic(topology, 6, ANSWERS, 100, topology.links(0, 6))
    assert found == (down, up, across, messages)


def test_survey_of_servers_that_speak_seldom():
    """They exchange the answers once, though the first round has no links."""
    task, data = network_task("dense")
    played = play(composed(task, data, "feddisco", topology=Clusters(2, 3)), data, 4)
    each = 3 * 4
    assert played.loop.asked.across == 6 * each
    assert played.loop.asked.up == 6 * each
    silent = play(composed(task, data, "feddisco", topology=Clusters(2, 9)), data, 4)
    assert silent.loop.asked.across == 0


@pytest.mark.parametrize(
    "topology", [Complete(), Random(probability=0.6, link_loss=0.3), Rotating(), Gossip()]
)
@pytest.mark.parametrize("method", ["feddisco", "fedep", "superfed_mm"])
def test_both_engines_agree(topology, method):
    """On every new topology, with half of the clients."""
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, method, topology=topology, **sampled(0.5))
    one, all_ = (play(recipe, data, 3, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.states[-1], all_.states[-1]) < 1e-9


def test_methods_of_one_server_are_refused():
    """With the reason, and the topology that would do."""
    task, data = network_task("dense")
    message = r"'fednova' cannot run on topology 'complete': its weights .* set topology"
    with pytest.raises(ConfigError, match=message):
        composed(task, data, "fednova", topology=Complete())


def test_a_federation_of_one():
    """Nobody to hear, and nothing fails."""
    task, _ = network_task("dense")
    data = federation(sizes=(12,))
    for topology in (Star(), Complete(), Rotating()):
        for method in ("fedavg", "feddisco", "fedep"):
            done = play(composed(task, data, method, topology=topology), data, 2)
            assert done.rounds[-1].weights.tolist() == [1.0]
            assert done.rounds[-1].traffic.across == 0
