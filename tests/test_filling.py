"""Numbers for weights: those of ``rng``, bit for bit, however many keys are drawn from at once."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

from unalike import filling, rng

PIECE = filling.PIECE
BOTH = pytest.mark.parametrize(
    ("fast", "plain"), [(filling.uniform, rng.uniform), (filling.normal, rng.normal)]
)
Draw = Callable[..., Tensor]


@BOTH
@pytest.mark.parametrize("n", [0, 1, 7, 1000, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 333])
def test_one_key(fast: Draw, plain: Draw, n: int) -> None:
    for i in (-3, 0, 2**40):
        key = rng.fold_in(rng.key(5), i)
        assert torch.equal(fast(key, n), plain(key, n))


@BOTH
@pytest.mark.parametrize("shape", [(3,), (50, 11), (PIECE // 2, 1), (2, PIECE)])
def test_many_keys_in_any_order(fast: Draw, plain: Draw, shape: tuple[int, ...]) -> None:
    keys = rng.fold_in(rng.key(5), torch.tensor([9, 0, 4, 123456, 2]))
    expected = torch.stack([plain(key, *shape) for key in keys])
    assert torch.equal(vmap(lambda k: fast(k, *shape))(keys), expected)
    assert torch.equal(vmap(lambda k: fast(k, *shape))(keys.flip(0)), expected.flip(0))


@BOTH
def test_keys_on_two_axes(fast: Draw, plain: Draw) -> None:
    keys = rng.fold_in(rng.key(5), torch.arange(6).view(2, 3))
    expected = torch.stack([torch.stack([plain(k, 4) for k in column]) for column in keys.T])
    assert torch.equal(vmap(vmap(lambda k: fast(k, 4)), in_dims=1)(keys), expected)


@BOTH
def test_a_trace_draws_from_the_key_it_is_given(fast: Draw, plain: Draw) -> None:
    traced = make_fx(lambda k: fast(k, 5, 2), tracing_mode="fake")(rng.key(1))
    assert torch.equal(traced(rng.key(2)), plain(rng.key(2), 5, 2))


@BOTH
def test_in_single_precision_whatever_is_usual(fast: Draw, plain: Draw) -> None:
    """A module of a user's own may change PyTorch's default type."""
    torch.set_default_dtype(torch.float64)
    found = fast(rng.key(5), 100)
    assert found.dtype == torch.float32
    assert torch.equal(found, plain(rng.key(5), 100))
