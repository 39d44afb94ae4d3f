"""The vmappable LSTM is ``nn.LSTM`` in other operations."""

import pytest
import torch
from torch import nn

from unalike.models.recurrent import LSTM


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_nn_lstm(layers: int, bias: bool) -> None:
    """The same names, outputs and gradients."""
    torch.manual_seed(layers)
    theirs = nn.LSTM(4, 6, layers, bias=bias, batch_first=True)
    ours = LSTM(4, 6, layers, bias=bias)
    shapes = [(n, p.shape) for n, p in theirs.named_parameters()]
    assert [(n, p.shape) for n, p in ours.named_parameters()] == shapes
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 9, 4)
    weighting = torch.randn(3, 9, 6)

    expected = theirs(x)[0]
    torch.testing.assert_close(ours(x), expected, atol=1e-6, rtol=0)

    (expected * weighting).sum().backward()
    (ours(x) * weighting).sum().backward()
    for name, p in theirs.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name).grad, p.grad, atol=1e-5, rtol=1e-5)


def test_starts_bounded() -> None:
    """As ``nn.LSTM``, uniform within 1 / sqrt(hidden)."""
    torch.manual_seed(0)
    weights = torch.cat([p.detach().flatten() for p in LSTM(5, 16, 2).parameters()])
    assert 0.24 < weights.abs().max() <= 0.25
    assert abs(weights.mean()) < 0.01
