"""The Gaussian mechanism: how long, how noisy, and drawn by whom."""

import pytest
import torch
from federations import cohort

from unalike import rng
from unalike.parts.privacy.gaussian import Clipped, NoisyMean, noisy

MANY = 40_000


def zeros(n: int) -> dict[str, torch.Tensor]:
    return {"a": torch.zeros(n, MANY // 2), "b": torch.zeros(n, 2, MANY // 4)}


def flat(up: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([x.flatten() for x in up.values()])


def test_local_noise_has_standard_deviation_z_c() -> None:
    """1.5 x 2 = 3, within five standard errors of an estimate from 40 000 numbers."""
    sent = flat(Clipped(2.0, 1.5).encode({k: v[0] for k, v in zeros(1).items()}, (), rng.key(3))[0])
    assert float(sent.std()) == pytest.approx(3.0, abs=5 * 3 / (2 * MANY) ** 0.5)
    assert float(sent.mean()) == pytest.approx(0.0, abs=5 * 3 / MANY**0.5)


@pytest.mark.parametrize("n", [1, 4, 10])
def test_central_noise_falls_with_the_number_of_answers(n: int) -> None:
    """z C / n on the mean, that is z C on the sum."""
    up, p = NoisyMean(2.0, 1.5)(zeros(n), torch.full((n,), 1 / n), cohort([1.0] * n))
    assert p.tolist() == [1.0]
    assert float(flat(up).std()) == pytest.approx(3 / n, rel=5 / (2 * MANY) ** 0.5)


def test_the_server_clips_what_clients_did_not() -> None:
    """(3, 4) to (0.6, 0.8), (0, 0.5) stays: half the sum."""
    ups = {"w": torch.tensor([[3.0, 4.0], [0.0, 0.5]])}
    up, _ = NoisyMean(1.0, 0.0)(ups, torch.tensor([0.5, 0.5]), cohort([1.0, 1.0]))
    assert up["w"].tolist() == [pytest.approx([0.3, 0.65])]


def test_every_leaf_round_and_client_has_noise_of_its_own() -> None:
    ups, p = zeros(2), torch.tensor([0.5, 0.5])
    now, later = (
        flat(NoisyMean(1.0, 1.0)(ups, p, cohort([1.0, 1.0])._replace(key=rng.key(k)))[0])
        for k in (1, 2)
    )
    half = MANY // 2
    for a, b in ((now, later), (now[:half], now[half:])):
        assert abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) < 5 / half**0.5
    again = flat(NoisyMean(1.0, 1.0)(ups, p, cohort([1.0, 1.0])._replace(key=rng.key(1)))[0])
    assert torch.equal(now, again)


def test_without_noise_and_bound_nothing_changes() -> None:
    up = {"w": torch.tensor([1e3, -2e3])}
    assert torch.equal(Clipped(torch.inf).encode(up, (), rng.key(0))[0]["w"], up["w"])
    assert noisy(up, 0.0, rng.key(0)) is up
