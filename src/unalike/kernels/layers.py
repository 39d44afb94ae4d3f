"""Layers that a network gets in place of PyTorch's; they compute the same.

Inside vmap on a GPU that has the kernels they use them, and are PyTorch's own otherwise.
"""

from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C import _functorch  # the only public-free way to ask whether we are inside vmap

from unalike.kernels.available import available
from unalike.kernels.functions import convolution
from unalike.kernels.geometry import Geometry, Pair
from unalike.kernels.pooling import MaxPool, Window


def _mapped(x: Tensor) -> bool:
    """Whether ``x`` are images inside a transformation, on a device that has the kernels."""
    return x.ndim == 4 and _functorch.peek_interpreter_stack() is not None and available(x)


def _pair(value: int | tuple[int, ...]) -> Pair:
    return (value, value) if isinstance(value, int) else cast(Pair, tuple(value))


class Conv2d(nn.Conv2d):
    """``nn.Conv2d`` that is fast when every client has weights of its own."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        geometry = self._geometry()
        if geometry is None or not _mapped(input):
            return super()._conv_forward(input, weight, bias)
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
            input, weight = input.to(dtype), weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        return convolution(input, weight, bias, geometry)

    def _geometry(self) -> Geometry | None:
        """None if the border is not zeros, or not the same on both sides."""
        both = self._reversed_padding_repeated_twice
        if self.padding_mode != "zeros" or both[0::2] != both[1::2]:
            return None
        return Geometry(_pair(self.stride), (both[2], both[0]), _pair(self.dilation), self.groups)


class MaxPool2d(nn.MaxPool2d):
    """``nn.MaxPool2d``, or with ``relu`` that after ``nn.ReLU``."""

    relu = False

    def forward(self, input: Tensor) -> Tensor:
        """The largest value of every window."""
        if _mapped(input):
            parts = (self.kernel_size, self.stride, self.padding, self.dilation)
            y, _ = MaxPool.apply(input, Window(*map(_pair, parts), self.relu))
            return y
        y = super().forward(input)
        return F.relu(y) if self.relu else y


def _poolable(m: nn.Module) -> bool:
    if type(m) is not nn.MaxPool2d or m.return_indices or m.ceil_mode:
        return False
    high, wide = _pair(m.kernel_size)
    return high * wide < 255  # a byte says where in its window a value was found


def accelerated(module: nn.Module) -> nn.Module:
    """``module``, changed in place to have the layers above; its parameters keep their names.

    Only PyTorch's own classes are replaced, never a class derived from them. In an
    ``nn.Sequential`` a ReLU right before a pooling is done after it, on a quarter of the numbers.
    """
    for m in list(module.modules()):
        if type(m) is nn.Sequential:
            _reordered(m)
        if type(m) is nn.Conv2d or _poolable(m):
            m.__class__ = Conv2d if isinstance(m, nn.Conv2d) else MaxPool2d
    return module


def _reordered(m: nn.Sequential) -> None:
    for (first, relu), (second, pool) in pairwise(list(m.named_children())):
        if type(relu) is nn.ReLU and _poolable(pool):
            both = MaxPool2d(pool.kernel_size, pool.stride, pool.padding, pool.dilation)
            both.relu = True
            m._modules[first], m._modules[second] = nn.Identity(), both
