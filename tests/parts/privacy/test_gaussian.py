"""The client's half of the Gaussian mechanism: how long, how noisy."""

import pytest
import torch

from unalike import rng
from unalike.parts.privacy.gaussian import Clipped, noisy

MANY = 40_000


def test_local_noise_has_standard_deviation_z_c() -> None:
    """1.5 x 2 = 3, within five standard errors of an estimate from 40 000 numbers."""
    up = {"a": torch.zeros(MANY // 2), "b": torch.zeros(2, MANY // 4)}
    noisy_up, _ = Clipped(2.0, 1.5).encode(up, (), rng.key(3))
    sent = torch.cat([x.flatten() for x in noisy_up.values()])
    assert float(sent.std()) == pytest.approx(3.0, abs=5 * 3 / (2 * MANY) ** 0.5)
    assert float(sent.mean()) == pytest.approx(0.0, abs=5 * 3 / MANY**0.5)


def test_without_noise_and_bound_nothing_changes() -> None:
    up = {"w": torch.tensor([1e3, -2e3])}
    assert torch.equal(Clipped(torch.inf).encode(up, (), rng.key(0))[0]["w"], up["w"])
    assert noisy(up, 0.0, rng.key(0)) is up
