"""Dense layers of many clients against plain products."""

import pytest
import torch
from torch import Tensor

from unalike.kernels import dense

SHAPES = [(3, 10, 784, 200), (2, 1, 5, 3), (5, 50, 130, 70), (2, 100, 64, 33), (1, 16, 257, 16)]
CUDA = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
    ],
)


def drawn(device: str, dtype: torch.dtype, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(device, dtype)


@pytest.fixture(params=["ieee", "tf32"])
def precision(request):
    """PyTorch's products of single precision; afterwards as before."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = request.param
    yield request.param
    torch.backends.cuda.matmul.fp32_precision = before


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_moved(shape, dtype, device, precision):
    n, rows, inputs, outputs = shape
    w = drawn(device, torch.float32, n, outputs, inputs)
    g, x = drawn(device, dtype, n, rows, outputs), drawn(device, dtype, n, inputs, rows)
    x, step = x.transpose(1, 2), torch.tensor(-0.5, device=device)  # any layout will do
    want = w.double() - 0.5 * g.double().transpose(1, 2) @ x.double()
    # Rounded factors: a sum of this many products is off by about the root of their number.
    loose = 2e-3 * rows**0.5 if precision == "tf32" and device == "cuda" else 1e-5 * rows
    torch.testing.assert_close(dense.moved(w, g, x, step).double(), want, rtol=0, atol=loose)


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("shape", SHAPES)
def test_narrow(shape, device, precision):
    n, rows, inputs, outputs = shape
    x = drawn(device, torch.float32, n, rows, inputs)
    w = drawn(device, torch.float32, n, outputs, inputs)
    want = x.double() @ w.double().transpose(1, 2)
    loose = 2e-3 * inputs**0.5 if precision == "tf32" and device == "cuda" else 1e-5 * inputs
    torch.testing.assert_close(dense.narrow(x, w).double(), want, rtol=0, atol=loose)


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 50, 3136, 70), (2, 64, 300, 512)])
def test_rounded(shape, device):
    """Sums of 16-bit products are exact but for single precision; the result has 16 bits."""
    n, rows, inputs, outputs = shape
    x = drawn(device, torch.bfloat16, n, rows, inputs)
    w = drawn(device, torch.float32, n, outputs, inputs)
    y, short = dense.rounded(x, w)
    assert torch.equal(short, w.bfloat16())
    want = x.double() @ w.bfloat16().double().transpose(1, 2)
    torch.testing.assert_close(y.double(), want, rtol=2**-8, atol=1e-5 * inputs)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_rounding_is_to_the_nearest():
    """Factors whose last bits are cut off make every product of positive numbers too small."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    x, w = torch.rand(4, 10, 784, device="cuda"), torch.rand(4, 200, 784, device="cuda")
    exact = x.double() @ w.double().transpose(1, 2)
    bias = ((dense.narrow(x, w).double() - exact) / exact).mean()
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    assert abs(float(bias)) < 2e-5, "cut off it would be -6e-4"
