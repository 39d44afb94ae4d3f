"""Where the kernels can run: on a CUDA device that Triton compiles for."""

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from unalike.errors import RunWarning

PRECISIONS = frozenset({torch.float32, torch.bfloat16, torch.float16})
LARGEST = 2**31  # kernels count pixels, and one client's numbers, in 32 bits
OLDEST = (8, 0)  # the first generation whose tensor units take single precision


@cache
def _device(index: int) -> bool:
    """Asked once per device, so that what is missing is said once."""
    lacking = None
    if find_spec("triton") is None:
        lacking = "the package triton is not installed; pip install triton helps"
    elif torch.cuda.get_device_capability(index) < OLDEST:
        lacking = f"{torch.cuda.get_device_name(index)} is older than Triton's kernels need"
    if lacking:
        warnings.warn(
            f"convolutions of many clients are computed by cuDNN, several times slower: {lacking}.",
            RunWarning,
            stacklevel=2,
        )
    return lacking is None


def available(x: Tensor) -> bool:
    """Whether the kernels can compute with ``x``."""
    return x.is_cuda and x.dtype in PRECISIONS and _device(x.device.index or 0)


def small(*sizes: int) -> bool:
    """Whether kernels can count that far."""
    return max(sizes) < LARGEST
