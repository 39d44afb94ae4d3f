"""Messages between nodes and servers take time: four clients with lines of their own, by hand.

A model is 8 bytes, a client has one example. On a ring two messages leave and reach each node:
from 0 to 1 that is 0.5 + 8 / min(8 / 2, 16 / 2) = 2.5 seconds, after 1 second of work.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from federations import Played, Quadratic, at, composed, distance, network_task, play, same, scalars
from torch import Tensor

from unalike import rng
from unalike.compare.execution.budget import Forecast
from unalike.parts.graphs import Given, Gossip, Random
from unalike.parts.optim import Sgd
from unalike.parts.participation.clock import Clock, Devices, Rate
from unalike.parts.participation.schedule import Participation
from unalike.parts.topology import (
    Clusters,
    Complete,
    Exponential,
    Ring,
    Rotating,
    Star,
    Topology,
)
from unalike.rng import Key
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment

WORK = [1.0, 2.0, 4.0, 8.0]  # seconds
UP = [8.0, 16.0, 4.0, 8.0]
DOWN = [16.0, 16.0, 2.0, 4.0]
SHAKEN = [1.0, 2.0, 1.0, 0.5]
M = 8
SIX, DENSE = network_task("dense")
EVEN = Clock(Rate(10.0), Rate(100.0), Rate(50.0), latency=0.5)


@dataclass(frozen=True)
class Known(Clock):
    """A clock whose devices are those of the lists above."""

    shakes: bool = False

    def devices(self, key: Key, ids: Tensor) -> Devices:
        speed = [1 / seconds for seconds in WORK]
        return Devices(*(torch.tensor(x, dtype=torch.float64)[ids] for x in (speed, DOWN, UP)))

    def shaken(self, key: Key, t: int, ids: Tensor) -> Tensor:
        factors = torch.tensor(SHAKEN, dtype=torch.float64)[ids]
        return factors if self.shakes else torch.ones_like(factors)


CLOCK = Known(latency=0.5, backbone=4.0)


def played(
    topology: Topology, *methods: Any, clock: Clock | None = CLOCK, rounds: int = 2, **parts: Any
) -> Played:
    data = scalars([0.0, 4.0, 8.0, 12.0])
    parts = {"opt": Sgd(0.5), "clock": clock, "topology": topology, "rounds": rounds} | parts
    recipe = composed(Quadratic(), data, *methods or ("fedavg",), **parts)
    return play(recipe, data, rounds, at(w=1.0), batch_size=1)


def seconds(topology: Topology, *methods: Any, **parts: Any) -> list[float | None]:
    return [r.seconds for r in played(topology, *methods, **parts).rounds]


def by_loops(edges: list[tuple[int, int]], ready: list[float], size: int) -> float:
    """The end of a round on a graph, message by message."""
    sent = [(j, i) for j, i in edges if j != i]
    end = max(ready)
    for j, i in sent:
        leaving = sum(1 for _, b in sent if b == i)
        coming = sum(1 for a, _ in sent if a == j)
        end = max(end, ready[i] + 0.5 + size / min(UP[i] / leaving, DOWN[j] / coming))
    return end


def test_a_ring_by_hand() -> None:
    """Slowest is 3 to 2: 8 seconds of work, 0.5, and 8 bytes at half of 2 a second."""
    assert seconds(Ring()) == [16.5, 16.5]


def test_without_a_clock_there_is_no_time_and_with_one_nothing_else_changes() -> None:
    for topology in (Ring(), Clusters(2, 2), Rotating(), Random(probability=0.8, redraw=1)):
        plain, timed = played(topology, clock=None), played(topology)
        assert plain.rounds[0].seconds is None
        assert distance(plain.states[-1].stack.x, timed.states[-1].stack.x) == 0


def test_one_neighbour_at_a_time() -> None:
    """Round 1: j hears j + 1, and 3 to 2 takes 0.5 + 8 / 2. Round 2: 3 to 1 takes 0.5 + 8 / 8."""
    assert seconds(Exponential(one_peer=True)) == [12.5, 9.5]


def test_a_node_without_neighbours_only_works() -> None:
    """A path 0 - 1 beside 2 - 3; then without the second link, where node 3 works 8 seconds."""
    assert seconds(Given(((0, 1), (2, 3)))) == [12.5, 12.5]
    assert seconds(Given(((0, 1), (3, 3)))) == [8.0, 8.0]


@pytest.mark.parametrize(
    "topology",
    [
        Complete(),
        Exponential(),
        Random(probability=0.6),
        Random(probability=0.5, redraw=1, seed=3),
        Gossip(),
        Ring(link_loss=0.5, seed=2),
        Complete(weights="metropolis", link_loss=0.3),
    ],
)
def test_any_graph_message_by_message(topology: Topology) -> None:
    found = seconds(topology, rounds=6)
    graphs = [topology.links(t, 4) for t in range(6)]
    assert found == pytest.approx(
        [by_loops([tuple(e) for e in g.tolist()], WORK, M) for g in graphs]  # type: ignore[union-attr, misc]
    )
    if not getattr(topology, "stays", True) or getattr(topology, "link_loss", 0):
        assert len(set(found)) > 1


def test_gradient_tracking_tells_twice_as_much() -> None:
    edges = [(j, (j + d) % 4) for j in range(4) for d in (-1, 0, 1)]
    assert seconds(Ring(), "scaffold") == pytest.approx([by_loops(edges, WORK, 2 * M)] * 2)


def test_who_is_absent_sends_nothing() -> None:
    """Two of four, who only share a line where they are neighbours."""
    run = played(Ring(), rounds=8, participation=Participation(0.5))
    ring = {(j, (j + d) % 4) for j in range(4) for d in (-1, 0, 1)}
    for done in run.rounds:
        there = done.ids.tolist()
        edges = [(j, i) for j, i in ring if j in there and i in there]
        ready = [WORK[i] if i in there else 0.0 for i in range(4)]
        assert done.seconds == pytest.approx(by_loops(edges, ready, M))


def test_jitter_is_the_senders() -> None:
    """2 to 3 is done last: 4 + 0.5 + 8 / 4; 3 to 2 takes half of 8 + 0.5 + 8 / 2 seconds.

    Client 1 takes twice its 2 seconds and its message, to client 0, twice 0.5 + 8 / 16.
    """
    jittered = replace(CLOCK, shakes=True)
    assert seconds(Given(((0, 1), (2, 3))), clock=jittered) == [6.5, 6.5]
    assert seconds(Given(((0, 1), (3, 3))), clock=jittered) == [6.0, 6.0]


def test_late_messages_are_not_heard_both_ways() -> None:
    """By 9 seconds: 0 to 1 (3.5), 1 to 0 (3.5), 2 to 3 and 2 to 1 (8.5), 0 to 3 (5.5).

    From 1 to 2 takes until 10.5, from 3 until 16.5 and 12.5, so that only one link is in use.
    """
    run = played(Ring(), clock=replace(CLOCK, deadline=9.0))
    done = run.rounds[0]
    assert done.seconds == 9.0
    heard = {j: sorted(row) for j, row in done.mixed.items()}
    assert heard == {0: [0, 1], 1: [0, 1], 2: [2], 3: [3]}
    assert done.ids.tolist() == [0, 1, 2, 3]
    assert done.traffic.across == 2 * M


def test_late_nodes_are_absent() -> None:
    """By 6 seconds node 3 still works; 1 to 2 takes until 2 + 0.5 + 8 / 2, as does 2 to 1."""
    done = played(Ring(), clock=replace(CLOCK, deadline=6.0)).rounds[0]
    assert (done.seconds, done.ids.tolist()) == (6.0, [0, 1, 2])
    assert {j: sorted(row) for j, row in done.mixed.items()} == {0: [0, 1], 1: [0, 1], 2: [2]}


def test_a_deadline_that_all_meet_is_none() -> None:
    plain, met = played(Ring()), played(Ring(), clock=replace(CLOCK, deadline=16.5))
    assert [r.seconds for r in met.rounds] == [16.5, 16.5]
    assert same(plain.states[-1].stack.x, met.states[-1].stack.x)


def test_a_server_that_moves() -> None:
    """Client 0, then client 1, to whom 0.5 + 8 / 8 seconds bring the state.

    Client 3 is last: 0.5 + 8 / min(8 / 3, 4), 8 of work, 0.5 + 8 / min(8, 16 / 3); then with 16 / 3
    for the first. Nobody sends anything to itself.
    """
    assert seconds(Rotating()) == pytest.approx([3.5 + 8 + 2, 1.5 + 2.5 + 8 + 2])


def test_the_server_among_clients_only_works() -> None:
    """In round 4 client 3 has the state after 0.5 + 8 / 4 seconds and works for 8.

    Meanwhile client 2, the last of its guests, takes 0.5 + 8 / 2, then 4, then 0.5 + 8 / (4 / 3).
    """
    assert seconds(Rotating(), rounds=4)[3] == pytest.approx(2.5 + max(8, 4.5 + 4 + 6.5))


def test_edge_servers_exchange_every_other_round() -> None:
    """Clients 0 and 2, 1 and 3; the last answer comes after 1 + 8 / 4 + 8 + 8 / 8 seconds.

    Then the second server tells the first, 0.5 + 8 / 4; a cloud takes another hop.
    """
    assert seconds(Clusters(2, 2)) == [12.0, 14.5]
    assert seconds(Clusters(2, 2, cloud=True)) == [12.0, 17.0]


def test_edge_servers_share_their_lines() -> None:
    """Three servers, so two messages on each line, and the first is ready after 12 seconds."""
    assert seconds(Clusters(3)) == [16.5, 16.5]


def test_one_server_tells_nobody() -> None:
    assert seconds(Clusters(1)) == seconds(Star()) == [12.0, 12.0]


def test_a_late_client_keeps_its_edge_server() -> None:
    """Server 1 waits for client 3 until the deadline, then both tell each other."""
    run = played(Clusters(2), clock=replace(CLOCK, deadline=11.5))
    assert run.rounds[0].ids.tolist() == [0, 1, 2]
    assert run.rounds[0].seconds == 14.0


def test_a_star_is_what_it_was() -> None:
    """2 latency + down / b_down + examples / speed + up / b_up, for everybody and nothing else."""
    own = [1 + M / d + w + M / u for d, w, u in zip(DOWN, WORK, UP, strict=True)]
    assert own == [3.5, 4.0, 11.0, 12.0]
    assert seconds(Star()) == [12.0, 12.0]
    found = EVEN.seconds(rng.stream(0, "clock"), 0, torch.arange(3), torch.tensor([5, 9, 16]), 7, 3)
    assert found.tolist() == [2 * 0.5 + 7 / 100 + n / 10 + 3 / 50 for n in (5.0, 9.0, 16.0)]


def six(*methods: Any, rounds: int = 2, **parts: Any) -> list[float | None]:
    made = composed(SIX, DENSE, *methods, **{"clock": EVEN, "rounds": rounds} | parts)
    return [r.seconds for r in play(made, DENSE, rounds).rounds]


def test_codecs_make_messages_to_servers_short() -> None:
    """Client 0 serves five, whose answers, 188 entries and scales of 6 tensors, share its line."""
    down, up = 752 / (50 / 5), (188 + 24) / min(50, 100 / 5)
    assert six("eight_bit", topology=Rotating(), rounds=1) == pytest.approx([1 + down + 4 + up])
    edge = 1 + 752 / 100 + 4 + 212 / 50
    backbone = replace(EVEN, backbone=1000.0)
    assert six("eight_bit", topology=Clusters(2), clock=backbone, rounds=1) == pytest.approx(
        [edge + 0.5 + 752 / 1000]  # models between servers stay whole
    )


def test_who_does_not_answer_has_nothing_to_upload() -> None:
    """Two phases: in mid-phase the largest client, 40 examples, only downloads and works."""
    recipe = composed(SIX, DENSE, ("phase_shift", {"phases": 2}), clock=EVEN, rounds=6)
    run, sizes = play(recipe, DENSE, 6), torch.tensor([5, 9, 16, 20, 30, 40])
    down = tree_bytes(run)
    for t, done in enumerate(run.rounds):
        plan = recipe.schedule.plan(t, range(6), 6, run.loop.cohorts)
        each = 0.5 + down / 100 + sizes[plan.ids] / 10 + plan.reply * (0.5 + 752 / 50)
        assert done.seconds == pytest.approx(float(each.max()))
    assert len({r.seconds for r in run.rounds}) > 1


def tree_bytes(run: Played) -> int:
    """What a client of a run downloads."""
    return run.rounds[0].traffic.down // 6


def test_who_shares_nothing_waits_for_no_message() -> None:
    assert six("local_only") == pytest.approx([4.0, 4.0])


def test_budgets_know_what_is_late() -> None:
    """Bytes that are forecast are those that are sent, also where links miss the deadline."""
    asked = {
        "rounds": 3,
        "data": "digits",
        "model": "logistic",
        "topology": "ring",
        "partition": {"name": "iid", "clients": 6},
        "clock": {"kind": "simulated", "deadline": 0.6, "up": 2e4, "latency": 0.01},
    }
    made = experiment(parse(asked))
    progress, sent = made.course.begin(), 0
    for t in range(3):
        progress, report, _ = made.course.advance(progress, t)
        sent += report.traffic.total
    whole = 3 * 12 * 4 * 650
    assert 0 < sent < whole, "some links and not all must be late for this to be a test"
    assert Forecast(experiment(parse(asked))).total(3).bytes == sent


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_both_engines_tell_the_same_time(engine: str) -> None:
    uneven = Clock(Rate(10.0, 1.0), Rate(500.0, 1.0), Rate(500.0, 1.0), 0.1, jitter=0.5, deadline=9)
    recipe = composed(SIX, DENSE, "fedavg", topology=Ring(), clock=uneven, rounds=4)
    run = play(recipe, DENSE, 4, engine=engine)  # type: ignore[arg-type]
    again = play(recipe, DENSE, 4)
    assert [r.seconds for r in run.rounds] == [r.seconds for r in again.rounds]
    assert [r.mixed.keys() for r in run.rounds] == [r.mixed.keys() for r in again.rounds]
