"""What a CPU computes faster in another way, for unchanged modules and forward passes only.

Maxima over images. PyTorch's kernel processes one channel after the other, number by number. With
channels last it processes many at once, in half of the time or less, including the copies to that
order and back. A maximum is not rounded, so the result is the same to the last bit.

Products of dense layers. PyTorch calls MKL, which uses only half of the vector units on processors
of other makers than Intel. oneDNN, which computes convolutions anyway, uses all of them and takes
less than half of the time. The sums are rounded in another order.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

WIDE = 4  # channels from which copies pay
MAXIMA = (torch.max_pool2d, F.max_pool2d)  # modules call the second


class Quick(TorchFunctionMode):
    """While it is on, in the thread that turned it on; without gradients."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Any call of PyTorch; two are computed in another way if they fit."""
        if func in MAXIMA and args and _wide(args[0]):
            last = args[0].contiguous(memory_format=torch.channels_last)
            return func(last, *args[1:], **(kwargs or {})).contiguous()
        if func is F.linear and not kwargs and products() and _plain(*args[:2]):
            bias = args[2] if len(args) > 2 else None
            return torch.ops.mkldnn._linear_pointwise(*args[:2], bias, "none", [], "")
        return func(*args, **(kwargs or {}))


def quick(device: torch.device) -> AbstractContextManager[Any]:
    """The ways of a device."""
    return Quick() if device.type == "cpu" else nullcontext()


@cache
def products() -> bool:
    """Whether there is another library for products, and units that only it uses."""
    found = torch.backends.mkldnn.is_available()
    found = found and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return found and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _wide(x: object) -> bool:
    """Whether these are images of enough channels, one channel after the other in memory."""
    return isinstance(x, Tensor) and x.ndim == 4 and x.shape[1] >= WIDE and x.is_contiguous()


def _plain(x: object, w: object = None) -> bool:
    """Whether this is a product of two matrices in single precision, row after row in memory."""
    return all(
        isinstance(v, Tensor) and v.ndim == 2 and v.dtype == torch.float32 and v.is_contiguous()
        for v in (x, w)
    )
