"""Dense layers of many clients, each with weights of its own and a small minibatch.

With few rows a product reads every weight once, so its cost is the number of passes over the
weights. ``moved`` takes a descent step in the pass that computes the gradient, which is never
stored; ``narrow`` multiplies few rows, for which cuBLAS reads weights at a third of the memory's
speed; ``rounded`` rounds weights to 16 bits in the pass of the product that reads them first.
Compiled steps use them (``engine/compiled/merging.py``); they need no derivative there.
"""

import torch
from torch import Tensor

from unalike.kernels import plan
from unalike.kernels.available import available, small
from unalike.kernels.linear import weight_gradient
from unalike.kernels.registry import fake, operator

FEW = 16  # rows of a narrow product, or of a gradient in single precision, at most
LONG = 256  # inputs from which on it is faster than the library's
ROWS = 64  # of a product that rounds its weights, at most


def _fits(*tensors: Tensor) -> bool:
    """Whether our own kernels are to compute this, in single precision only if it is rounded."""
    exact = torch.backends.cuda.matmul.fp32_precision != "tf32"
    if exact and any(t.element_size() == 4 for t in tensors[1:]):
        return False
    return all(available(t) and small(t[0].numel()) for t in tensors)


@operator("moved", "(Tensor w, Tensor g, Tensor x, Tensor step) -> Tensor")
def moved(w: Tensor, g: Tensor, x: Tensor, step: Tensor) -> Tensor:
    """Weights [n, O, I] plus ``step``, one number, times g' x of g [n, B, O] and x [n, B, I]."""
    if not (_fits(w, g, x) and w.is_contiguous()):
        return torch.addcmul(w, weight_gradient(x, g), step.to(w.dtype))
    from unalike.kernels.device import dense as kernels

    n, rows, inputs = x.shape
    outputs, out = g.shape[2], torch.empty_like(w)
    blocks = plan.step(rows, x.element_size())
    kernels.move[(-(-inputs // blocks.n), -(-outputs // blocks.m), n)](
        w, g, x, step, out,
        rows, outputs, inputs, *g.stride(), *x.stride(),
        ROUND=x.dtype == torch.float32, BB=blocks.k, BO=blocks.m, BI=blocks.n,
        num_warps=blocks.warps,
    )  # fmt: skip
    return out


@fake("moved")
def _(w: Tensor, g: Tensor, x: Tensor, step: Tensor) -> Tensor:
    return torch.empty_like(w)


@operator("narrow", "(Tensor x, Tensor w) -> Tensor")
def narrow(x: Tensor, w: Tensor) -> Tensor:
    """Few rows [n, B, I] times weights [n, O, I]."""
    plain = x.stride(2) == w.stride(2) == 1 and x.dtype == w.dtype == torch.float32
    if not (plain and _fits(w, x) and x.shape[1] <= FEW):
        return torch.bmm(x, w.transpose(1, 2))
    from unalike.kernels.device import dense as kernels

    n, rows, inputs = x.shape
    outputs, y = w.shape[1], x.new_empty(len(x), x.shape[1], w.shape[1])
    blocks = plan.NARROW
    kernels.multiply[(-(-outputs // blocks.n), n)](
        x, w, y,
        rows, outputs, inputs, x.stride(0), x.stride(1), w.stride(0), w.stride(1),
        ROUND=True, BB=blocks.m, BO=blocks.n, BI=blocks.k,
        num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip
    return y


@fake("narrow")
def _(x: Tensor, w: Tensor) -> Tensor:
    return x.new_empty(len(x), x.shape[1], w.shape[1])


@operator("rounded", "(Tensor x, Tensor w) -> (Tensor, Tensor)")
def rounded(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [n, B, I] times weights [n, O, I] in the rows' type, and the weights in that type."""
    plain = x.stride(2) == 1 and w.is_contiguous() and x.element_size() == 2
    if not (plain and x.shape[1] <= ROWS and _fits(w, x)):
        short = w.to(x.dtype, copy=True)
        return torch.bmm(x, short.transpose(1, 2)), short
    from unalike.kernels.device import dense as kernels

    n, rows, inputs = x.shape
    outputs, short = w.shape[1], torch.empty_like(w, dtype=x.dtype)
    y, blocks = x.new_empty(n, rows, outputs), plan.ROUNDED
    kernels.multiply_rounded[(-(-outputs // blocks.n), n)](
        x, w, y, short,
        rows, outputs, inputs, x.stride(0), x.stride(1),
        BB=plan.power(rows, 16, ROWS), BO=blocks.n, BI=blocks.k,
        num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip
    return y, short


@fake("rounded")
def _(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(len(x), x.shape[1], w.shape[1]), torch.empty_like(w, dtype=x.dtype)
