"""Max-pooling that takes the ReLU along, against PyTorch's."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch.func import grad, vmap

from unalike.kernels.pooling import Window, max_pool, max_pool_gradient, pooled

WINDOWS = {
    f"{k} stride {s} padding {p} dilation {d} {'relu' if r else ''}": Window(k, s, p, d, r)
    for k, s, p, d, r in product(
        ((2, 2), (3, 2)), ((2, 2), (1, 2), (3, 3)), ((0, 0), (1, 1)), ((1, 1), (2, 1)), (0, 1)
    )
}


def images(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 2, 5, 9, 8, generator=generator, dtype=dtype)
    return (4 * x).round() / 4  # values that are equal often: the first one counts


def ours(window: Window):
    return lambda x: (pooled(x, window) + 1).sin().sum()


def pytorchs(window: Window):
    w = window
    return lambda x: (
        (F.max_pool2d(x.relu() if w.relu else x, w.kernel, w.stride, w.padding, w.dilation) + 1)
        .sin()
        .sum()
    )


@pytest.mark.parametrize("name", WINDOWS)
def test_gradients_of_many_clients(name):
    window, x = WINDOWS[name], images()
    torch.testing.assert_close(vmap(grad(ours(window)))(x), vmap(grad(pytorchs(window)))(x))

    def twice(f):
        return vmap(grad(lambda x: (grad(f)(x) ** 2).sum()))(x)

    torch.testing.assert_close(twice(ours(window)), twice(pytorchs(window)))


@pytest.mark.parametrize("flat", [False, True])
def test_operators_are_registered_rightly(flat):
    x, window = images()[0], ((3, 2), (2, 2), (1, 1), (1, 1))
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(max_pool, (x, *window, True, flat), test_utils=tests)
    y, found = max_pool(x, *window, True, flat)
    torch.library.opcheck(max_pool_gradient, (y, found, (9, 8), *window), test_utils=tests)


def test_a_nan_is_passed_on():
    x = torch.zeros(1, 1, 2, 2)
    x[0, 0, 1, 0] = torch.nan
    y, found = max_pool(x, (2, 2), (2, 2), (0, 0), (1, 1), True, False)
    assert y.isnan().all()
    assert found.item() == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", WINDOWS)
def test_kernels(name, dtype):
    """The same choice as PyTorch on the CPU, bit for bit; sums of few numbers, as exactly."""
    w, x = WINDOWS[name], images(dtype)[0]
    x[0, 0, 0, 0] = torch.nan
    where = (w.kernel, w.stride, w.padding, w.dilation)
    for flat in (False, True):
        y, found = max_pool(x, *where, w.relu, flat)
        mine, here = max_pool(x.cuda(), *where, w.relu, flat)
        assert torch.equal(y.nan_to_num(9), mine.cpu().nan_to_num(9))
        assert torch.equal(found, here.cpu())
        assert mine.is_contiguous() == flat
        g = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        back = max_pool_gradient(g.float(), found, (9, 8), *where)
        there = max_pool_gradient(g.cuda(), here, (9, 8), *where).cpu()
        torch.testing.assert_close(there, back.to(dtype))
