"""Bits in bytes, and positions in as few bytes as hold them; pure and safe under vmap."""

import torch
from torch import Tensor

BYTE = 8


def pack(bits: Tensor) -> Tensor:
    """[ceil(n / 8)] bytes from [n] booleans, the first one in the lowest bit.

    >>> pack(torch.tensor([1, 0, 1, 0, 0, 0, 0, 0, 1], dtype=torch.bool))
    tensor([5, 1], dtype=torch.uint8)
    """
    size = -(-len(bits) // BYTE)
    padded = torch.nn.functional.pad(bits.to(torch.int64), (0, size * BYTE - len(bits)))
    powers = 2 ** torch.arange(BYTE, device=bits.device)
    return (padded.reshape(size, BYTE) * powers).sum(1).to(torch.uint8)


def unpack(packed: Tensor, n: int) -> Tensor:
    """The first ``n`` booleans of what ``pack`` made.

    >>> unpack(torch.tensor([5, 1], dtype=torch.uint8), 9).int().tolist()
    [1, 0, 1, 0, 0, 0, 0, 0, 1]
    """
    shifts = torch.arange(BYTE, device=packed.device)
    return ((packed.to(torch.int64)[:, None] >> shifts) & 1).reshape(-1)[:n].bool()


def width(n: int) -> int:
    """Whole bytes that hold every position below ``n``.

    >>> width(256), width(257), width(65_536), width(65_537)
    (1, 2, 2, 3)
    """
    return max(1, -(-(n - 1).bit_length() // BYTE))


def write(positions: Tensor, n: int) -> Tensor:
    """[k, width] bytes, the lowest first.

    >>> write(torch.tensor([3, 258]), 300)
    tensor([[3, 0],
            [2, 1]], dtype=torch.uint8)
    """
    shifts = BYTE * torch.arange(width(n), device=positions.device)
    return ((positions[:, None] >> shifts) & 255).to(torch.uint8)


def read(written: Tensor) -> Tensor:
    """The positions that ``write`` wrote.

    >>> read(torch.tensor([[3, 0], [2, 1]], dtype=torch.uint8))
    tensor([  3, 258])
    """
    shifts = BYTE * torch.arange(written.shape[1], device=written.device)
    return (written.to(torch.int64) << shifts).sum(1)
