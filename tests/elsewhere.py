"""A device that is not the CPU, for machines that have no other: its numbers are on the CPU.

Every operation is computed there, so results are those of the CPU; but where tensors of both
devices meet in one operation it raises an error, as CUDA does. It borrows the name of a device of
PyTorch's own that nothing is computed on. Only the thread that opens it can make tensors there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

ELSEWHERE = torch.device("lazy")
ATEN = torch.ops.aten
# Take indices on the CPU, or copy from one device to the other.
BOTH = {
    ATEN.index.Tensor,
    ATEN.index_put.default,
    ATEN.index_put_.default,
    ATEN.copy_.default,
    ATEN._to_copy.default,
}
# Refuse even a single number of the CPU, which others take for a constant.
STRICT = {"cat", "stack", "gather", "scatter", "index_add", "index_add_", "index_copy_", "mm"}


class There(Tensor):
    """A tensor on that device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "There":
        form = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        made = Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, device=ELSEWHERE, **form
        )
        made.inner = inner
        return made  # type: ignore[no-any-return]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"There({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    there = [x for x in given if isinstance(x, There)]
    strict = func._schema.name.removeprefix("aten::") in STRICT
    here = [x for x in given if not isinstance(x, There) and (x.ndim or strict)]
    if there and here and func not in BOTH:
        raise RuntimeError(f"{func} of tensors on {ELSEWHERE} and on the CPU")
    device = kwargs.get("device")
    goes = bool(there) if device is None else torch.device(device) == ELSEWHERE
    if func is ATEN.copy_.default:
        goes = isinstance(args[0], There)
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    known = {id(x.inner): x for x in there}
    inner = pytree.tree_map(lambda x: x.inner if isinstance(x, There) else x, (args, kwargs))

    def put(x: Any) -> Any:
        if not goes or not isinstance(x, Tensor):
            return x
        return known[id(x)] if id(x) in known else There(x)  # in place: the one that was given

    return pytree.tree_map(put, func(*inner[0], **inner[1]))


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _Numbers(TorchFunctionMode):
    """Numbers become tensors, and tensors numbers, on the CPU: no other mode sees PyTorch do it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.tolist:
            return func(brought(args[0]))
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor) and device is not None:
            return func(*args, **{**kwargs, "device": None}).to(device)
        return func(*args, **kwargs)


@contextmanager
def elsewhere() -> Iterator[torch.device]:
    """The device, for as long as it is there."""
    with _Numbers(), _Operations():
        yield ELSEWHERE


def brought(x: Any) -> Any:
    """The numbers of a tensor, or of a tree of them, on the CPU."""
    return pytree.tree_map(lambda x: x.inner if isinstance(x, There) else x, x)
