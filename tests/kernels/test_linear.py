"""Linear layers of mixed precision against ``F.linear``."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad, vmap

from unalike.kernels.linear import linear


def drawn(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


W, B, X = drawn(3, 6, 5), drawn(3, 6), drawn(3, 4, 5)


def ours(w: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return linear(x, w, b).sin().sum()


def pytorchs(w: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return F.linear(x, w, b).sin().sum()


@pytest.mark.parametrize(
    ("dims", "args"),
    [
        ((0, 0, 0), (W, B, X)),
        ((0, 0, None), (W, B, X[0])),
        ((None, None, 0), (W[0], B[0], X)),
        ((1, 0, 2), (W.movedim(0, 1), B, X.movedim(0, 2))),
        ((0, 0, 0), (W, B, X[:, :, None])),
        ((0, 0, 0), (W, B, X[:, 0])),
    ],
)
def test_gradients_of_many_clients(dims, args):
    one, two = (vmap(grad(f, (0, 1, 2)), dims)(*args) for f in (ours, pytorchs))
    torch.testing.assert_close(one, two)


def test_second_derivatives():
    def twice(f):
        def norm(*a):
            return sum((t**2).sum() for t in grad(f, (0, 1, 2))(*a))

        return vmap(grad(norm, (0, 1, 2)))(W, B, X)

    torch.testing.assert_close(twice(ours), twice(pytorchs))


def test_gradients_are_not_rounded_to_the_precision_of_the_inputs():
    """Sums of products of 16-bit numbers that 16 bits cannot hold."""
    x = torch.tensor([[1.0], [2.0**-10]], dtype=torch.bfloat16)
    w = torch.ones(1, 1)
    dw = grad(lambda w: linear(x, w, None).sum())(w)
    assert dw.dtype == torch.float32
    assert dw.item() == 1 + 2.0**-10
