"""Local differential privacy: every client's own noise; the rest is in test_dp.py."""

import pytest
import torch
from federations import composed, distance, federation, network_task, play

from unalike.parts.privacy.gaussian import Clipped


def test_without_noise_and_bound_it_is_fedavg() -> None:
    """With FedAvg's own weights."""
    task, data = network_task("dense")
    loose = ("local_dp", {"clip": 1e30, "noise_multiplier": 0.0})
    plain, bound = (play(composed(task, data, m), data, 3) for m in ("fedavg", loose))
    assert distance(plain.x, bound.x) < 1e-6
    assert torch.equal(plain.rounds[0].weights, bound.rounds[0].weights)


def test_it_is_a_member_of_the_channel() -> None:
    task, data = network_task("dense")
    made = composed(task, data, ("local_dp", {"clip": 0.3, "noise_multiplier": 0.7}))
    assert made.channel == (Clipped(0.3, 0.7),)
    assert made.filters == ()
    assert made.guarantee is not None
    assert made.guarantee.local


@pytest.mark.parametrize("other", ["median", "norm_clip", "fedavgm", "fedmgda"])
def test_it_goes_with_any_rule_of_the_server(other: str) -> None:
    task, data = network_task("dense")
    composed(task, data, "local_dp", other)


@pytest.mark.parametrize("topology", ["ring", "clusters"])
def test_on_other_topologies(topology: str) -> None:
    task, _ = network_task("dense")
    data = federation(sizes=(12,) * 6)
    done = play(composed(task, data, "local_dp", topology=topology), data, 2)
    assert all(torch.isfinite(x).all() for x in done.x.values())
