"""Tensors inside vmap as they are outside: with the client axis that vmap hides."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch  # private: nothing public tells of the axes that vmap hides
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from unalike import tree
from unalike.tree import Tree


def here() -> bool:
    """Whether we are inside vmap, or grad, or both."""
    return _functorch.peek_interpreter_stack() is not None


def raw(x: Tensor) -> Tensor:
    """The tensor itself, its hidden axis first."""
    if not inside(x):
        return x
    axis = _functorch.maybe_get_bdim(x)
    inner: Tensor = _functorch.get_unwrapped(x)
    return inner if axis == 0 else inner.movedim(axis, 0)


def inside(x: Tensor) -> bool:
    """Whether vmap hides an axis of it."""
    return bool(_functorch.is_batchedtensor(x))


def wrap(x: Tensor) -> Tensor:
    """The inverse, inside vmap."""
    inner = _functorch.peek_interpreter_stack()
    assert inner is not None, "called inside vmap"
    wrapped: Tensor = _functorch._add_batch_dim(x, 0, inner.level())
    return wrapped


def by_row(x: Tensor) -> Tensor:
    """The same, with ``x[s]`` of all clients in one piece of memory."""
    inner = _functorch.peek_interpreter_stack()
    if inner is None or not inside(x):
        return x
    turned = raw(x).transpose(0, 1).contiguous()
    wrapped: Tensor = _functorch._add_batch_dim(turned, 1, inner.level())
    return wrapped


def rows(x: Tensor, index: Tensor) -> Tensor:
    """``x[index]``; faster where all clients take rows of one tensor, each by its own numbers."""
    if not (once() and inside(index)) or inside(x):
        return x[index]
    numbers = raw(index)
    found = x.index_select(0, numbers.reshape(-1))
    return wrap(found.view(*numbers.shape, *x.shape[1:]))


def once() -> bool:
    """Whether we are inside one vmap and in nothing else."""
    inner = _functorch.peek_interpreter_stack()
    return inner is not None and inner.key() == _functorch.TransformType.Vmap and inner.level() == 1


def clients() -> int:
    """Over how many vmap goes, in one vmap and nothing else."""
    inner = _functorch.peek_interpreter_stack()
    assert inner is not None, "called inside vmap"
    return int(_functorch.CVmapInterpreterPtr(inner).batchSize())


@contextmanager
def outside() -> Iterator[None]:
    """As if nothing were mapped or differentiated: for tensors as they are outside."""
    with temporarily_clear_interpreter_stack():
        yield


def kind(t: Tree) -> Hashable:
    """Structure, shapes and types; None unless we are in one vmap and in nothing else."""
    if not once():
        return None

    def leaf(x: Any) -> Hashable:
        if not isinstance(x, Tensor):
            return x
        return tuple(raw(x).shape), x.dtype, inside(x)

    return tree.structure(t), tuple(map(leaf, tree.leaves(t)))


class Places:
    """Fixed tensors for the leaves of a tree."""

    def __init__(self, t: Tree, device: torch.device) -> None:
        """With the numbers of ``t``, all on one device.

        A number on the host would be a constant of whatever is recorded with it.
        """
        self.structure, found = tree.structure(t), tree.leaves(t)
        self.mapped = [isinstance(x, Tensor) and inside(x) for x in found]
        self.held: list[Any] = [_own(x, device) for x in found]

    @property
    def bytes(self) -> int:
        """How much memory they take."""
        return tree.size_bytes([x for x in self.held if isinstance(x, Tensor)])

    def tree(self) -> Tree:
        """The places themselves in the form of ``t``, inside vmap."""
        return self._tree(self.held)

    def copy(self) -> Tree:
        """What they hold, in the form of ``t``."""
        return self._tree([x.clone() if isinstance(x, Tensor) else x for x in self.held])

    def _tree(self, found: list[Any]) -> Tree:
        both = zip(found, self.mapped, strict=True)
        return tree.build([wrap(x) if m else x for x, m in both], self.structure)

    def fill(self, t: Tree) -> None:
        """Take other numbers; a leaf without the hidden axis is the same for all.

        ``t`` may be made of the places themselves, in another order.
        """
        mine = {x.untyped_storage().data_ptr() for x in self.held if isinstance(x, Tensor)}
        same, other = list[tuple[Tensor, Tensor]](), list[tuple[Tensor, Tensor]]()
        for old, x in zip(self.held, tree.leaves_as(t, self.structure), strict=True):
            if not isinstance(old, Tensor):
                continue
            new = raw(x)
            if new.untyped_storage().data_ptr() in mine:
                if new.data_ptr() == old.data_ptr() and new.shape == old.shape:
                    continue
                new = new.clone()
            (same if old.shape == new.shape else other).append((old, new))
        if same:
            torch._foreach_copy_([old for old, _ in same], [new for _, new in same])
        for old, new in other:
            old.copy_(new)


def _own(x: Any, device: torch.device) -> Any:
    if not isinstance(x, Tensor):
        return x
    return raw(x).clone(memory_format=torch.contiguous_format).to(device)
