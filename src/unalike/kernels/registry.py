"""How an operator becomes PyTorch's own.

``torch.library.custom_op`` does the same, but its first call imports the compiler, which takes
seconds, and every call passes through more Python.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch

from unalike.kernels.geometry import Pair

F = TypeVar("F", bound=Callable[..., Any])


def operator(name: str, schema: str) -> Callable[[F], F]:
    """Register a function of tensors without derivatives as ``unalike::name``."""

    def register(f: F) -> F:
        torch.library.define(f"unalike::{name}", schema)
        torch.library.impl(f"unalike::{name}", "default", f)
        return cast(F, getattr(torch.ops.unalike, name).default)

    return register


def fake(name: str) -> Callable[[F], F]:
    """Register what shape and layout ``unalike::name`` returns, for whoever only traces it."""

    def register(f: F) -> F:
        torch.library.register_fake(f"unalike::{name}", f)
        return f

    return register


def pair(values: Sequence[int]) -> Pair:
    """Two numbers, as operators get them."""
    one, two = values
    return one, two
