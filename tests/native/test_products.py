"""Products of matrices in all orders of memory, beside those of PyTorch in double precision."""

import ctypes
from itertools import product as every

import pytest
import torch
from torch import Tensor

from unalike.native.build import built, compiler
from unalike.native.loops import Buffer, Value
from unalike.native.statements import product

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C++ compiler")
SHAPES = [(1, 1, 1), (2, 3, 1), (10, 40, 33), (10, 7, 50), (13, 50, 16), (24, 17, 10), (1, 9, 20)]


def matrix(m: int, n: int, turned: bool, dtype: torch.dtype) -> Tensor:
    """Random numbers, columns next to one another if turned."""
    made = torch.randn(n, m, dtype=dtype).t() if turned else torch.randn(m, n, dtype=dtype)
    return made


def value(name: str, x: Tensor) -> Value:
    return Value(Buffer(name, x.dtype, x.numel()), 0, tuple(x.shape), x.stride())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_are_products(dtype: torch.dtype) -> None:
    """Every tile and every rest of a tile; added to what is there, or written over it."""
    torch.manual_seed(0)
    lines, tensors, wanted = list[str](), list[Tensor](), list[Tensor]()
    kind = "float" if dtype == torch.float32 else "double"
    for (m, n, k), ta, tb, tc, add in every(SHAPES, *[[False, True]] * 4):
        a, b, c = matrix(m, k, ta, dtype), matrix(k, n, tb, dtype), matrix(m, n, tc, dtype)
        exact = 0.5 * (a.double() @ b.double()) + (c.double() if add else 0)
        wanted.append(exact)
        names = [f"x{len(tensors) + i}" for i in range(3)]
        for name, x in zip(names, (a, b, c), strict=True):
            lines.append(f"{kind}* {name} = ({kind}*)p[{len(tensors)}];")
            tensors.append(x)
        values = [value(name, x) for name, x in zip(names, (a, b, c), strict=True)]
        lines += product(values[2], values[0], values[1], add=values[2] if add else None, alpha=0.5)
    head = '#include "step.hpp"\nextern "C" int run(const int64_t*, char* const* p,'
    text = "\n".join([head + " const int64_t*, char*, int64_t*) {", *lines, "return 0;", "}\n"])
    pointers = (ctypes.c_int64 * len(tensors))(*(x.data_ptr() for x in tensors))
    assert built(text)(pointers, pointers, pointers, 0, pointers) == 0
    close = {torch.float32: 1e-5, torch.float64: 1e-13}[dtype]
    for found, exact in zip(tensors[2::3], wanted, strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=close, atol=close * 10)


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_added_may_lie_elsewhere(turned: bool) -> None:
    """A bias of every row or column, one number, or weights that stay as they were."""
    torch.manual_seed(0)
    lines, tensors, found, wanted = list[str](), list[Tensor](), list[Tensor](), list[Tensor]()
    for m, n, k in [(10, 40, 33), (13, 50, 16), (7, 1, 5)]:
        for shape in [(n,), (m, 1), (1, 1), (m, n)]:
            a, b, d = torch.randn(m, k), torch.randn(k, n), torch.randn(shape)
            c = matrix(m, n, turned, torch.float32)
            wanted.append(a.double() @ b.double() + d.double())
            found.append(c)
            values = list[Value]()
            for x in (a, b, c, d):
                lines.append(f"float* x{len(tensors)} = (float*)p[{len(tensors)}];")
                values.append(value(f"x{len(tensors)}", x))
                tensors.append(x)
            lines += product(values[2], values[0], values[1], add=values[3])
    head = '#include "step.hpp"\nextern "C" int run(const int64_t*, char* const* p,'
    text = "\n".join([head + " const int64_t*, char*, int64_t*) {", *lines, "return 0;", "}\n"])
    pointers = (ctypes.c_int64 * len(tensors))(*(x.data_ptr() for x in tensors))
    assert built(text)(pointers, pointers, pointers, 0, pointers) == 0
    for c, exact in zip(found, wanted, strict=True):
        torch.testing.assert_close(c.double(), exact, rtol=1e-5, atol=1e-4)
