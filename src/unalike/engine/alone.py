"""Servers that each heard one client: a step of many of them in one call.

With a client at every server, as where there is no server, a thousand small steps would take
longer than all that is computed in them.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from unalike import tree
from unalike.algorithm import Algorithm
from unalike.cohort import Cohort
from unalike.tree import Tree
from unalike.uploads import Stacked

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

    def step(server: Any, up: Tree, p: Tensor) -> Any:
        return algorithm.server(server, Stacked(up), p, cohort)

    def put(at: Tensor, new: Tree) -> None:
        silent[at] = False
        tree.map(lambda rows, x: rows.index_copy_(0, at.to(rows.device), x), out, new)

    for ids, ups in parts:
        device = next(iter(tree.leaves(ups)), ids).device
        for a in range(0, len(ids), each):
            at = home[ids[a : a + each]]
            some = tree.map(lambda x: x[a : a + each, None], ups)  # noqa: B023
            one = torch.ones(len(at), 1, dtype=torch.float64, device=device)
            put(at, vmap(step)(tree.row(stack, at), some, one))
    rest = silent.nonzero()[:, 0]
    put(rest, tree.row(stack, rest))
    return out
