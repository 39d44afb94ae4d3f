"""Errors of predicted numbers against scikit-learn, and by hand."""

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from unalike.metrics.regression import per_client


def test_three_clients_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y, owner = rng.normal(50, 10, 90), rng.permutation(np.repeat([0, 2, 3], 30))
    f = y + rng.normal(0, 3, 90)
    found = per_client(*map(torch.from_numpy, (f, y, owner)), 4)
    for k in (0, 2, 3):
        of = f[owner == k], y[owner == k]
        assert found["rmse"][k].item() == pytest.approx(root_mean_squared_error(of[1], of[0]))
        assert found["mae"][k].item() == pytest.approx(mean_absolute_error(of[1], of[0]))
        assert found["r2"][k].item() == pytest.approx(r2_score(of[1], of[0]))
    assert found["n"].tolist() == [30, 0, 30, 30]
    assert all(found[name][1].isnan() for name in ("rmse", "mae", "r2"))


def test_by_hand() -> None:
    """Errors 1, -1, 3: squares of 11 in all, magnitudes of 5; the truth varies by 1 + 0 + 1."""
    f, y = torch.tensor([2.0, 1.0, 6.0]), torch.tensor([1.0, 2.0, 3.0])
    found = per_client(f, y, torch.zeros(3, dtype=torch.long), 1)
    assert found["rmse"].item() == pytest.approx((11 / 3) ** 0.5)
    assert found["mae"].item() == pytest.approx(5 / 3)
    assert found["r2"].item() == pytest.approx(1 - 11 / 2)


@pytest.mark.parametrize("y", [[0.1], [0.1, 0.1, 0.1]])
def test_rows_that_do_not_vary_have_no_r2(y: list[float]) -> None:
    found = per_client(torch.zeros(len(y)), torch.tensor(y), torch.zeros(len(y)).long(), 1)
    assert found["r2"].isnan().item()
    assert found["mae"].item() == pytest.approx(0.1)
