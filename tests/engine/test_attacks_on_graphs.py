"""Lies on every topology: servers make of them what honest arithmetic makes of a lie."""

from typing import Any

import by_hand as hand
import numpy as np
import pytest
import rounds_by_hand as course
import torch
from by_hand import ETA, EVERYBODY, START, STEPS
from federations import Played, drafted, walk
from two_weights import DATA, NAMES, TASK, model

from unalike.engine.attacks import Attack, AttackedTransport, ModelReplacement, SignFlip
from unalike.parts.optim import Sgd
from unalike.parts.topology import Clusters, Complete, Ring, Rotating, Star, Topology

ROUNDS, LIARS = 4, (1, 2)


class Lying(hand.FedAvg):
    """Some clients' updates are multiples of what they should be; what they keep is honest."""

    factor: float = 1.0

    def round(self, k: int, x: np.ndarray, mine: Any, start: np.ndarray) -> tuple[np.ndarray, Any]:
        """Others do as they should."""
        end, own = super().round(k, x, mine, start)
        return (x + self.factor * (end - x) if k in LIARS else end), own


def beside(j: int) -> list[int]:
    return [(j - 1) % 4, j, (j + 1) % 4]


GRAPHS: dict[str, tuple[Topology, Any, Any]] = {
    "star": (Star(), 0 * EVERYBODY, lambda t: {}),
    "rotating": (Rotating(), 0 * EVERYBODY, lambda t: {}),
    "clusters": (
        Clusters(2, 2),
        EVERYBODY % 2,
        lambda t: {0: [0, 1], 1: [0, 1]} if t % 2 else {},
    ),
    "ring": (Ring(), EVERYBODY, lambda t: {j: beside(j) for j in range(4)}),
    "complete": (Complete(), EVERYBODY, lambda t: {j: [0, 1, 2, 3] for j in range(4)}),
}


def attacked(topology: Topology, attack: Attack) -> Played:
    parts = {"rounds": ROUNDS, "opt": Sgd(ETA), "epochs": float(STEPS), "topology": topology}
    program = drafted(TASK, DATA, "fedavg", **parts).program()

    def around(simulation: Any) -> AttackedTransport:
        return AttackedTransport(simulation, attack, torch.tensor(LIARS), 0)

    return walk(program, DATA, w=model(START), batch_size=16, around=around)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    ("attack", "factor"),
    [
        (SignFlip(scale=0.5), -0.5),
        (ModelReplacement(scale=1.5), 1.5),
        (ModelReplacement(), 2.0),  # four answers, two of them lies
    ],
)
def test_multiples_of_an_update(graph: str, attack: Attack, factor: float) -> None:
    """A liar without a server lies to itself, and its neighbours hear the model it comes to."""
    topology, home, hears = GRAPHS[graph]
    half = Lying()
    half.factor = factor
    wanted = course.servers(half, ROUNDS, home, hears)
    honest = course.servers(hand.FedAvg(), ROUNDS, home, hears)
    found = attacked(topology, attack).states[-1].servers
    for server, x, true in zip(found, wanted, honest, strict=True):
        got = [float(server.x[name]) for name in NAMES]
        assert got == pytest.approx(list(x), abs=3e-6)
        assert np.abs(x - true).max() > 1e-3
