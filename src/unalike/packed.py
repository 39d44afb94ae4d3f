"""Tensors as a safetensors file in parts: a head, then the tensors' own memory, uncopied.

The library's own ``save`` holds a file two or three times before it is written.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def parts(
    flat: Mapping[str, Tensor], notes: Mapping[str, str] | None = None
) -> list[bytes | memoryview]:
    """A file of tensors and notes, in parts; equal contents are equal bytes, whatever their order.

    >>> from safetensors.torch import load
    >>> load(b"".join(parts({"x": torch.tensor([1.0, 2.0])})))
    {'x': tensor([1., 2.])}
    """
    order = sorted(flat, key=lambda name: (-flat[name].element_size(), name))
    held = {name: flat[name].detach().cpu().contiguous() for name in order}
    table: dict[str, Any] = {} if notes is None else {"__metadata__": dict(sorted(notes.items()))}
    at = 0
    for name, x in held.items():
        end = at + x.numel() * x.element_size()
        table[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight bytes
    return [len(text).to_bytes(8, "little") + text, *map(memory, held.values())]


def memory(x: Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU, to be read or written in place."""
    flat = x.as_strided((x.numel(),), (1,))  # a single number may have any stride
    return flat.view(torch.uint8).numpy().data


def owned(flat: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that were read, in memory of their own.

    In a file they begin at any multiple of eight bytes, and if that is not a multiple of sixteen,
    MKL's products end in other digits: a resumed run would differ from an uninterrupted one.
    """
    return {name: x.clone() for name, x in flat.items()}


def size(dtype: str, shape: Iterable[int]) -> int:
    """Bytes of a tensor."""
    return math.prod(shape) * DTYPES[dtype].itemsize
