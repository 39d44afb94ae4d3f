"""Layers that a network gets in place of PyTorch's; they compute the same.

Inside vmap on a GPU that supports the kernels they use them; otherwise they are PyTorch's own.
"""

import copy
from typing import TypeGuard, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unalike import mapped
from unalike.kernels.available import available
from unalike.kernels.functions import convolution
from unalike.kernels.geometry import Geometry, Pair
from unalike.kernels.linear import linear
from unalike.kernels.pooling import Window, pooled


def _mapped(x: Tensor) -> bool:
    """Whether ``x`` is inside a transformation, on a device that has the kernels."""
    return mapped.here() and available(x)


def _pair(value: int | tuple[int, ...]) -> Pair:
    return (value, value) if isinstance(value, int) else cast(Pair, tuple(value))


class Conv2d(nn.Conv2d):
    """``nn.Conv2d`` that is fast when every client has weights of its own."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        geometry = self._geometry()
        if geometry is None or input.ndim != 4 or not _mapped(input):
            return super()._conv_forward(input, weight, bias)
        if torch.is_autocast_enabled("cuda"):
            input = input.to(torch.get_autocast_dtype("cuda"))  # weights follow in the kernel
        return convolution(input, weight, bias, geometry)

    def _geometry(self) -> Geometry | None:
        """None if the border is not zeros, or not the same on both sides."""
        both = self._reversed_padding_repeated_twice
        if self.padding_mode != "zeros" or both[0::2] != both[1::2]:
            return None
        return Geometry(_pair(self.stride), (both[2], both[0]), _pair(self.dilation), self.groups)


class Linear(nn.Linear):
    """``nn.Linear`` whose weights' gradients are not rounded under autocast."""

    def forward(self, input: Tensor) -> Tensor:
        """``input`` times the weights, plus the bias."""
        if not _mapped(input):
            return super().forward(input)
        if not torch.is_autocast_enabled("cuda"):
            out = input @ self.weight.mT  # inside vmap PyTorch's own scales the bias by one first
            return out if self.bias is None else out + self.bias
        dtype = torch.get_autocast_dtype("cuda")
        return linear(input.to(dtype), self.weight, self.bias)


class MaxPool2d(nn.MaxPool2d):
    """``nn.MaxPool2d``, with ``relu`` after ``nn.ReLU``, with ``flat`` before ``nn.Flatten``."""

    relu = False
    flat = False

    def forward(self, input: Tensor) -> Tensor:
        """The largest value of every window."""
        if input.ndim == 4 and _mapped(input):
            window = Window(
                _pair(self.kernel_size),
                _pair(self.stride),
                _pair(self.padding),
                _pair(self.dilation),
                self.relu,
                self.flat,
            )
            return pooled(input, window)
        y = super().forward(input)
        return F.relu(y) if self.relu else y


_OWN: dict[type[nn.Module], type[nn.Module]] = {nn.Conv2d: Conv2d, nn.Linear: Linear}


def _poolable(m: nn.Module) -> TypeGuard[nn.MaxPool2d]:
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
        if type(m) in _OWN or _poolable(m):
            m.__class__ = _OWN.get(type(m), MaxPool2d)
    return module


def _reordered(m: nn.Sequential) -> None:
    layers = list(m.named_children())
    for i, (name, pool) in enumerate(layers):
        if not _poolable(pool):
            continue
        own = copy.copy(pool)  # the same layer may be used elsewhere
        own.__class__ = MaxPool2d
        assert isinstance(own, MaxPool2d)
        if i > 0 and type(layers[i - 1][1]) is nn.ReLU:
            own.relu, m._modules[layers[i - 1][0]] = True, nn.Identity()
        own.flat = i + 1 < len(layers) and type(layers[i + 1][1]) is nn.Flatten
        m._modules[name] = own
