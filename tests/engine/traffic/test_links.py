"""Bytes over every link and at every moment, against counts by hand; six clients."""

from typing import Any

import pytest
from federations import composed, network_task, play, sampled

from unalike.engine.traffic.links import CLOUD, Load, per_link
from unalike.parts.topology import Clusters, Complete, Ring, Rotating, Star, Topology
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds

TASK, DATA = network_task("dense")
M = 4 * 188  # a model
UP = M + 8  # and two statistics


def played(*methods: Any, rounds: int = 1, **parts: Any) -> tuple[dict[tuple[int, int], int], Load]:
    """(bytes of every link, the load) of the last round."""
    done = play(composed(TASK, DATA, *methods, rounds=rounds, **parts), DATA, rounds)
    ends, sizes = per_link(done.loop.sent)
    found = {(a, b): size for (a, b), size in zip(ends.tolist(), sizes.tolist(), strict=True)}
    total = done.rounds[-1].traffic.total
    assert sum(found.values()) == total, "links and ledger count the same bytes"
    return found, done.rounds[-1].load


def test_star() -> None:
    """Server 6: a model down and an answer up on every link; the answers are the busiest moment."""
    found, load = played("fedavg")
    assert found == {(i, 6): M + UP for i in range(6)}
    assert load == (6 * UP, M + UP)


def test_half_of_the_clients() -> None:
    found, load = played("fedavg", **sampled(0.5))
    assert set(found.values()) == {M + UP}
    assert load == (3 * UP, M + UP)


def test_scaffold_with_topk() -> None:
    """Two models down, twice 18 entries of five bytes up."""
    found, load = played("scaffold", ("topk", {"share": 0.1}))
    assert set(found.values()) == {2 * M + 2 * 18 * 5 + 8}
    assert load.at_once == 6 * 2 * M


def test_phases_upload_in_turn() -> None:
    """Three of six upload, so the downloads are the load: (n + 1) / (2n) of all, not the half."""
    task, data = network_task("dense")
    done = play(composed(task, data, "phase_shift", rounds=4), data, 4)
    assert [r.load.at_once for r in done.rounds] == [6 * (M + 4)] * 3 + [6 * UP]


@pytest.mark.parametrize(("topology", "links"), [(Ring(), 6), (Ring(2), 12), (Complete(), 15)])
def test_without_a_server(topology: Topology, links: int) -> None:
    """A model in both directions of every link, all at once."""
    found, load = played("fedavg", topology=topology)
    assert list(found.values()) == [2 * M] * links
    assert all(a < b < 6 for a, b in found)
    assert load == (links * 2 * M, 2 * M)


def test_edge_servers() -> None:
    """Servers 6 and 7, with three clients each, tell each other their models."""
    found, load = played("fedavg", topology=Clusters(2))
    assert found == {(i, 6 + i % 2): M + UP for i in range(6)} | {(6, 7): 2 * M}
    assert load == (6 * UP, 2 * M if 2 * M > M + UP else M + UP)


def test_a_cloud() -> None:
    found, load = played("fedavg", topology=Clusters(2, cloud=True))
    assert {k: v for k, v in found.items() if CLOUD in k} == {(CLOUD, 6): 2 * M, (CLOUD, 7): 2 * M}
    assert load.at_once == 6 * UP


def test_a_server_that_moves() -> None:
    """In round 2 client 0 hands the state to client 1, who then serves it like the others."""
    found, load = played("fedavg", topology=Rotating(), rounds=2)
    others = {(1, i): M + UP for i in range(2, 6)}
    assert found == {(0, 1): M + M + UP} | others
    assert load == (5 * UP, 2 * M + UP)


def test_alone() -> None:
    assert played("local_only") == ({}, Load(0, 0))


def test_codes_of_different_length() -> None:
    """The sum over links is the ledger's, though every answer has a length of its own."""
    found, _ = played(("stc", {"share": 0.2}))
    assert len(set(found.values())) > 1
    assert set(found) == {(i, 6) for i in range(6)}


def test_a_skipped_round_was_paid() -> None:
    from unalike.engine.server.guard import Guard

    done = play(
        composed(TASK, DATA, "fedavg", topology=Star()), DATA, 1, guard=Guard(min_replies=7)
    )
    assert done.rounds[0].skipped
    assert done.rounds[0].load == (6 * UP, M + UP)


@pytest.mark.parametrize(("topology", "links"), [("star", 5), ("ring", 5), ("rotating", 4)])
def test_a_record_has_every_link(topology: str, links: int) -> None:
    """They add up to the round's bytes, and the busiest is the one that is told."""
    asked = {
        "rounds": 2,
        "data": "digits",
        "model": "logistic",
        "partition": {"name": "iid", "clients": 5},
        "topology": topology,
    }
    model = 4 * (64 * 10 + 10)
    *_, last = rounds(experiment(parse(asked)))
    found = {(a, b): n for a, b, n in last.record["links"]}
    names = ("bytes_down", "bytes_up", "bytes_across")
    assert sum(found.values()) == sum(last.record[k] for k in names)
    assert max(found.values()) == last.record["bytes_link"]
    assert len(found) == links
    one = {"star": (4, 5), "ring": (0, 4), "rotating": (1, 4)}[topology]  # client 1 is the server
    assert found[one] == {"ring": 2 * model}.get(topology, 2 * model + 8)


def test_many_links_are_not_listed() -> None:
    asked = {"rounds": 1, "data": "digits", "model": "logistic"}
    *_, last = rounds(experiment(parse({**asked, "partition": {"name": "iid", "clients": 101}})))
    assert "links" not in last.record
