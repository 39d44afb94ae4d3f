"""Clipping of whole updates."""

import pytest
import torch
from torch.func import vmap

from unalike.parts.privacy.clip import clip, length


def test_the_whole_update_is_one_vector() -> None:
    """(3), (4 0): length 5 in all, clipped to 1."""
    up = {"a": torch.tensor([3.0]), "b": torch.tensor([[4.0, 0.0]])}
    assert float(length(up)) == 5
    cut = clip(up, 1.0)
    assert cut["a"].tolist() == pytest.approx([0.6])
    assert cut["b"].tolist() == [pytest.approx([0.8, 0.0])]


def test_short_updates_and_zero_stay() -> None:
    for value in (0.5, 0.0):
        up = {"a": torch.tensor([value])}
        assert torch.equal(clip(up, 1.0)["a"], up["a"])
        assert torch.equal(clip(up, torch.inf)["a"], up["a"])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_becomes_nothing(bad: float) -> None:
    """One such number in any leaf spoils the whole update."""
    cut = clip({"a": torch.tensor([1.0, bad]), "b": torch.tensor(2.0)}, 1.0)
    assert cut["a"].tolist() == [0.0, 0.0]
    assert float(cut["b"]) == 0


def test_alone_and_vmapped() -> None:
    x = {"a": torch.randn(4, 3), "b": torch.randn(4, 2, 2)}
    together = vmap(clip, in_dims=(0, None))(x, 0.7)
    for i in range(4):
        alone = clip({k: v[i] for k, v in x.items()}, 0.7)
        assert all(torch.allclose(alone[k], together[k][i]) for k in x)
        assert float(length(alone)) == pytest.approx(0.7, abs=1e-6)
