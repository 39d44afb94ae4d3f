"""A compiled program as a function of tensors."""

import ctypes
from typing import Any, NamedTuple

import torch
from torch import Tensor

ALIGNED = 64  # bytes


class Native(NamedTuple):
    """Clients and their steps, one after the other, without Python and its lock."""

    run: Any  # the function of the program
    now: list[int]  # which inputs of the moment it reads
    constants: list[Tensor]
    bytes: int  # of memory for results of a step

    def __call__(
        self, times: list[int], carry: list[Tensor], fixed: list[Tensor], now: list[Tensor]
    ) -> list[Tensor]:
        """The carries after so many steps of each client; clients are a leading axis of all."""
        out = [x.new_empty(x.shape) for x in carry]
        moment = [now[i] for i in self.now]
        tensors = [*out, *carry, *fixed, *moment]
        strides = [x.stride(0) * x.element_size() for x in tensors]
        strides += [0] * len(self.constants)
        strides += [x.stride(1) * x.element_size() for x in moment]
        pointers = [x.data_ptr() for x in (*tensors, *self.constants)]
        work = torch.empty(self.bytes + ALIGNED, dtype=torch.uint8)
        at = -(-work.data_ptr() // ALIGNED) * ALIGNED
        failed = self.run(len(times), _numbers(times), _numbers(pointers), _numbers(strides), at)
        if failed:
            what = "a label is not one of the classes" if failed == 1 else "a row is not there"
            raise IndexError(f"{what}, so no loss can be computed.")
        return out


def _numbers(x: list[int]) -> Any:
    return (ctypes.c_int64 * len(x))(*x)
