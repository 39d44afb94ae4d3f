"""Images with their channels last in memory, whatever the order of their axes says."""

import torch
from torch import Tensor


def channels_last(x: Tensor) -> Tensor:
    """``x`` [clients, images, channels, height, width] laid out so, or itself if it is already.

    Clients that share their images keep sharing them.
    """
    _, _, c, h, w = x.shape
    if x.stride()[1:] == (h * w * c, 1, w * c, c):
        return x
    if x.stride(0) == 0 and len(x) > 1:
        return channels_last(x[:1]).expand(x.shape)
    return x.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)


def empty(like: Tensor, n: int, b: int, c: int, h: int, w: int) -> Tensor:
    """Images that nothing was written to yet."""
    return like.new_empty(n, b, h, w, c).permute(0, 1, 4, 2, 3)


def padded(x: Tensor, high: int, wide: int) -> Tensor:
    """``x`` with so many zeros around it."""
    if x.stride(0) == 0 and len(x) > 1:
        return padded(x[:1], high, wide).expand(len(x), *[-1] * 4)
    n, b, c, h, w = x.shape
    out = empty(x, n, b, c, h + 2 * high, w + 2 * wide).zero_()
    out[..., high : high + h, wide : wide + w] = x
    return out


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type of sums of such numbers."""
    return torch.promote_types(dtype, torch.float32)
