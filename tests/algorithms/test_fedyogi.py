"""FedYogi: two increments, and its second moment by hand; b2 = 0.999, tau = 1e-4, rate 0.01."""

import pytest
from federations import composed, network_task
from server_steps import FIRST, SECOND, increments

from unalike.algorithms.fedopt import FedYogi


def test_two_increments() -> None:
    """m_0 = 0, v_0 = tau^2, no bias correction."""
    opt = FedYogi(lr=0.01, b1=0.9, b2=0.999, tau=1e-4)
    first, second = increments(opt, FIRST, SECOND)
    assert first == pytest.approx((0.031291, -0.02701562), abs=1e-6)
    assert second == pytest.approx((0.036632, 0.017720), abs=1e-6)
    assert first[1] == pytest.approx(-0.02701562, abs=5e-9)  # Adam differs in the eighth digit


def test_by_hand_over_many_rounds() -> None:
    """v moves by (1 - b2) g^2 towards g^2, never past it for long."""
    opt, m, v, x = FedYogi(lr=0.1, b1=0.9, b2=0.9, tau=1e-3), 0.0, 1e-6, 0.0
    deltas = [(0.5 * (-0.9) ** t, 0.0) for t in range(200)]
    got = sum(step[0] for step in increments(opt, *deltas))
    for d, _ in deltas:
        m = 0.9 * m + 0.1 * d
        v -= 0.1 * d * d * ((v > d * d) - (v < d * d))
        x += 0.1 * m / (v**0.5 + 1e-3)
    assert got == pytest.approx(x, rel=1e-6)


def test_settings_reach_the_server() -> None:
    """By name, as a file would give them."""
    settings = {"lr": 0.3, "b1": 0.1, "b2": 0.2, "tau": 0.4}
    made = composed(*network_task("dense"), ("fedyogi", settings))
    assert made.algorithm.server_opt == FedYogi(**settings)
