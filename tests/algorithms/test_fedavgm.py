"""FedAvgM: heavy-ball momentum on the server."""

import pytest
from federations import composed, distance, network_task, play
from server_steps import FIRST, SECOND, increments

from unalike.parts.optim import Sgd


def test_heavy_ball() -> None:
    """m = 0.5 m + d: increments d1, then 0.5 d1 + d2."""
    got = increments(Sgd(1.0, 0.5), FIRST, SECOND)
    assert got[0] == pytest.approx(FIRST)
    assert got[1] == pytest.approx([0.5 * a + b for a, b in zip(FIRST, SECOND, strict=True)])


def test_settings_reach_the_server() -> None:
    made = composed(*network_task("dense"), ("fedavgm", {"lr": 0.3, "momentum": 0.4}))
    assert made.algorithm.server_opt == Sgd(0.3, 0.4)


def test_without_momentum_it_is_fedavg() -> None:
    task, data = network_task("dense")
    plain, still = (
        play(composed(task, data, m), data, 3).x for m in ("fedavg", ("fedavgm", {"momentum": 0.0}))
    )
    assert distance(plain, still) < 1e-7
