"""Bytes and messages of three rounds, counted by hand, for every codec where servers are."""

from itertools import product
from math import ceil
from typing import Any

import pytest
from federations import Named, composed, network_task, play

from unalike import rng
from unalike.parts.topology import Clusters, Complete, Ring, Rotating, Star, Topology

TASK, DATA = network_task("dense")
LEAVES = [x.numel() for x in TASK.init(rng.key(0)).values()]  # 16 x 7 + 7 + 7 x 6 + 6 + 6 x 3 + 3
N, CLIENTS, ROUNDS = 188, 6, 3
WHOLE = 4 * N
TOLD = 2 * 4  # with every answer: how many examples, how many steps

# The bytes of one update. A position among 188 takes one byte, so does a number in eight bits.
CODECS: dict[str, tuple[list[Named], int]] = {
    "none": ([], WHOLE),
    "topk": ([("topk", {"share": 0.1})], 18 * (1 + 4)),
    "topk without feedback": ([("topk", {"share": 0.1, "feedback": False})], 18 * (1 + 4)),
    "random_mask": ([("random_mask", {"share": 0.1})], 4 + 18 * 4),
    "eight_bit": (["eight_bit"], N + 4 * 6),
    "sign": (["sign"], sum(ceil(n / 8) for n in LEAVES) + 4 * 6),
    "topk and eight_bit": ([("topk", {"share": 0.1}), "eight_bit"], 18 * (1 + 1) + 4),
    "topk and sign": ([("topk", {"share": 0.1}), "sign"], 18 + ceil(18 / 8) + 4),
    "random_mask and eight_bit": ([("random_mask", {"share": 0.5}), "eight_bit"], 4 + 94 + 4),
}


def counted(topology: Topology, up: int) -> tuple[int, int, int, int]:
    """(down, up, across, messages) of all rounds."""
    reached = CLIENTS - 1 if isinstance(topology, Rotating) else CLIENTS  # a host has no way to go
    down, up = ROUNDS * reached * WHOLE, ROUNDS * reached * (up + TOLD)
    # The role moves twice; two edge servers tell each other once, or a cloud, which answers both.
    hops = {Star: 0, Rotating: 2, Clusters: 2 * (1 + getattr(topology, "cloud", False))}
    across = hops[type(topology)]
    return down, up, across * WHOLE, 2 * ROUNDS * reached + across


def run(topology: Topology, *methods: Named) -> Any:
    return play(composed(TASK, DATA, *methods, topology=topology, rounds=ROUNDS), DATA, ROUNDS)


@pytest.mark.parametrize(
    ("codec", "topology"),
    list(product(CODECS, (Star(), Rotating(), Clusters(2, 2), Clusters(2, 2, cloud=True)))),
)
def test_uploads_as_they_travel(codec: str, topology: Topology) -> None:
    """Downloads, and what servers tell each other, are whole models."""
    methods, up = CODECS[codec]
    assert sum(LEAVES) == N
    found = [r.traffic for r in run(topology, *methods).rounds]
    assert tuple(map(sum, zip(*found, strict=True))) == counted(topology, up)


@pytest.mark.parametrize("codec", ["none", "topk and eight_bit"])
@pytest.mark.parametrize(
    "topology", [Star(), Rotating(), Clusters(2, 2), Clusters(2, 2, cloud=True)]
)
def test_parameters_are_those_before_compression(codec: str, topology: Topology) -> None:
    """Every message is a model: 188 numbers, to the cohort and back, and between servers."""
    rounds = run(topology, *CODECS[codec][0]).rounds
    messages = counted(topology, 0)[3]
    assert sum(r.worked["parameters"] for r in rounds) == messages * N
    assert sum(r.traffic.messages for r in rounds) == messages


@pytest.mark.parametrize("topology", [Ring(), Ring(2), Complete()])
@pytest.mark.parametrize(
    ("method", "vectors"), [("fedavg", N), ("scaffold", 2 * N), ("lg_fedavg", 21), ("fedper", 167)]
)
def test_models_between_neighbours(method: str, vectors: int, topology: Topology) -> None:
    """Everybody tells everybody beside it: its model, and gradient tracking its direction too."""
    beside = {Ring(): 2, Ring(2): 4, Complete(): 5}[topology]
    for done in run(topology, method).rounds:
        hops = CLIENTS * beside
        assert done.traffic == (0, 0, hops * 4 * vectors, hops)
        assert done.load == (hops * 4 * vectors, 2 * 4 * vectors)  # a link is used both ways
        assert done.worked["parameters"] == done.worked["parameters_all"] == hops * vectors


@pytest.mark.parametrize(
    ("methods", "down", "up"),
    [
        (["superfed_mm"], N, N),
        (["apfl"], N, N),
        (["pfedme"], N, N),
        (["moon"], N, N),
        (["feddyn"], N, N),
        (["ditto"], N, N),
        (["ditto", "scaffold"], 2 * N, 2 * N),
        (["lg_fedavg"], 21, 21),
        (["fedrep"], 167, 167),
        ([("lg_fedavg", {"local": "autoencoding"})], 21, 21),
        (["phase_shift", "lg_fedavg"], 21 + 1, 21),
        (["fedproto"], 3 * 6 + 3, 3 * 6 + 3),
    ],
)
def test_what_methods_send(methods: list[Named], down: int, up: int) -> None:
    """In the first round: a head is 6 x 3 + 3 numbers, and so are the prototypes with their masses.

    Phase-shift's download has the examples behind the model in it, and half of the clients answer.
    """
    answers = CLIENTS // 2 if "phase_shift" in methods else CLIENTS
    traffic = run(Star(), *methods).rounds[0].traffic
    assert traffic[:2] == (CLIENTS * 4 * down, answers * (4 * up + TOLD))
    assert traffic.messages == CLIENTS + answers
