"""FedAdam: two increments, with the state kept in between; b2 = 0.999, tau = 1e-4, rate 0.01."""

import pytest
import torch
from federations import composed, network_task, play
from server_steps import FIRST, SECOND, increments

from unalike.algorithms.fedopt import FedAdam

ADAM = FedAdam(lr=0.01, b1=0.9, b2=0.999, tau=1e-4)


def test_two_increments() -> None:
    """m_0 = 0, v_0 = tau^2, no bias correction."""
    first, second = increments(ADAM, FIRST, SECOND)
    assert first == pytest.approx((0.031291, -0.02701591), abs=1e-6)
    assert second == pytest.approx((0.036648, 0.017721), abs=1e-6)
    assert first[1] == pytest.approx(-0.02701591, abs=5e-9)  # Yogi differs in the eighth digit


def test_a_known_mistake_gives_other_numbers() -> None:
    """A released program updates v twice in one step: 0.022200, -0.020005."""
    assert abs(increments(ADAM, FIRST)[0][0] - 0.022200) > 1e-3


def test_buffers_are_averaged_whatever_the_optimizer() -> None:
    """BatchNorm statistics must not be scaled by an adaptive step."""
    task, data = network_task("conv")
    plain, adaptive = (
        play(composed(task, data, name), data, 1).x for name in ("fedavg", "fedadam")
    )
    for name in task.network.buffers:
        assert torch.equal(plain[name], adaptive[name])
    assert not torch.equal(plain["0.weight"], adaptive["0.weight"])
