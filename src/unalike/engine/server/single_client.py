"""Servers that each heard one client: a step of many of them in one call.

With one client per server, as on graphs, launching a thousand small steps would take longer than
the computation in them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from unalike import tree
from unalike.algorithm import Algorithm
from unalike.cohort import Cohort
from unalike.engine import threads
from unalike.tree import Tree

AT_ONCE = 16 << 20  # bytes of the models in one call: what stays near the processor


def adapted(
    algorithm: Algorithm,
    stack: Any,
    home: Tensor,
    parts: Iterable[tuple[Tensor, Tree]],
    cohort: Cohort,
) -> Any:
    """The servers after each took its one client's upload with a weight of one; others stay.

    ``parts`` are some clients' numbers with their uploads, stacked; ``cohort`` tells the round.
    """
    n = len(tree.leaves(stack)[0])
    out = tree.map(lambda x: torch.empty(x.shape, dtype=x.dtype, device=x.device), stack)
    silent = torch.ones(n, dtype=torch.bool)
    each = max(1, AT_ONCE // max(1, tree.size_bytes(stack.x) // n))
    one = torch.ones(1, dtype=torch.float64)

    def step(server: Any, up: Tree) -> Any:
        return algorithm.server(server, _Lone(up), one, cohort)

    def some(part: tuple[Tensor, Tree]) -> None:
        at, ups = part
        _put(out, at, vmap(step)(tree.rows(stack, at), ups))

    def few() -> Iterator[tuple[Tensor, Tree]]:
        for ids, ups in parts:
            for a in range(0, len(ids), each):
                at = home[ids[a : a + each]]
                silent[at] = False
                yield at, tree.map(lambda x: x[a : a + each], ups)  # noqa: B023

    threads.each(some, few())
    rest = silent.nonzero()[:, 0]
    _put(out, rest, tree.row(stack, rest))
    return out


class _Lone:
    """The upload of a server's only client, which counts as one."""

    def __init__(self, up: Tree) -> None:
        self.up = up

    def mean(self, p: Tensor, of: Callable[[Tree], Tree] = lambda up: up) -> Tree:
        """The upload itself."""
        return of(self.up)

    def stack(self) -> Tree:
        """With an axis of one client."""
        return tree.map(lambda x: x[None], self.up)


def _put(out: Tree, at: Tensor, new: Tree) -> None:
    near = tree.neighbours(at)
    if near is None:
        tree.map(lambda rows, x: rows.index_copy_(0, at.to(rows.device), x), out, new)
    else:
        tree.map(lambda rows, x: rows[near].copy_(x), out, new)
