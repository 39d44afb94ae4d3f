"""Local-only training: every client by itself, and nothing on the wire."""

import numpy as np
import torch
from federations import Data, composed, distance, network_task, play, sampled, state_of

from unalike.federation.data import Rows


def test_nothing_travels() -> None:
    task, data = network_task("dense")
    played = play(composed(task, data, "local_only"), data, 2)
    for done in played.rounds:
        assert done.traffic.down == 0
    assert played.x == {}


def test_a_client_trains_as_if_it_were_the_only_one() -> None:
    """Client 3 beside five others, and in a federation of its own rows with FedAvg."""
    task, data = network_task("conv")
    played = play(composed(task, data, "local_only", **sampled(1.0, 1.5)), data, 3)
    mine = state_of(played.simulation, 3)
    alone = play(composed(task, data, "local_only", **sampled(1.0, 1.5)), only(data, 3), 3)
    other = state_of(alone.simulation, 3)
    assert distance(mine, other) < 1e-6


def only(data: Data, i: int) -> Data:
    """The same clients, of whom all others hold a single example of the first one."""
    parts = [data.rows.of(k) if k == i else data.rows.of(0)[:1] for k in range(data.n_clients)]
    start = np.cumsum([0, *map(len, parts)])
    return Data(data.examples, Rows(torch.cat(parts), start))
