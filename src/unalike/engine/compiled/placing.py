"""Where the results of a step are stored: in memory that is allocated once for all steps of a call.

Allocating memory is a large part of a small step, and threads that allocate wait for each other.
Shapes are known, so every result is written to a reserved place, which is reused for the next
result of the same form once nobody reads the first one any more.
"""

from collections import defaultdict
from functools import cache
from heapq import heappop, heappush
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

ATEN = torch.ops.aten
LARGE = 1 << 18  # bytes of a result whose memory costs little beside it
Operation = torch._ops.OpOverload[..., Any]


class Place(NamedTuple):
    """Memory of one form."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def taken(self) -> Tensor:
        """Memory for it."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype)


def placed(graph: fx.Graph, nodes: list[fx.Node]) -> dict[fx.Node, Place]:
    """Let nodes write into places, which are further inputs of the graph.

    What is handed on, or may share memory with that, has memory of its own.
    """
    _by_others(nodes)
    order = {n: i for i, n in enumerate(graph.nodes)}
    last, start = _last_reads(graph, order), next(iter(graph.nodes))
    found, free = dict[fx.Node, Place](), defaultdict[Place, list[fx.Node]](list)
    held = list[tuple[int, int, list[fx.Node]]]()  # until when, by whom, which
    for node in nodes:
        while held and held[0][0] < order[node]:
            for place in heappop(held)[-1]:
                free[found[place]].append(place)
        out, forms = _writing(node), _forms(node)
        if out is None or forms is None or last[node] >= len(order):
            continue
        mine = list[fx.Node]()
        for form in forms:
            if not free[form]:
                with graph.inserting_before(start):
                    free[form].append(graph.placeholder(f"place{len(found)}"))
                found[free[form][-1]] = form
            mine.append(free[form].pop())
        names = [a.name for a in out._schema.arguments if a.is_out]
        node.target, node.kwargs = out, {**node.kwargs, **dict(zip(names, mine, strict=True))}
        heappush(held, (last[node], order[node], mine))
    return found


def may_view(node: fx.Node, read: fx.Node) -> bool:
    """Whether the result of one may share memory with that of another, which it reads."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or "reshape" in str(node.target):
        return True
    if not any(r.alias_info is not None for r in schema.returns):
        return False
    given = zip(schema.arguments, node.args, strict=False)
    return any(a.alias_info is not None and x is read for a, x in given)


def _by_others(nodes: list[fx.Node]) -> None:
    """What PyTorch computes by another operation, by one that can write into a place."""
    for node in nodes:
        if node.target is ATEN.relu.default:
            node.target, node.args = ATEN.clamp_min.default, (*node.args, 0)
        elif node.target is ATEN.sum.default:
            node.target, node.args = ATEN.sum.dim_IntList, (*node.args, [])


def _last_reads(graph: fx.Graph, order: dict[fx.Node, int]) -> dict[fx.Node, int]:
    """Where the memory of a node is read for the last time, by itself or as a part of another.

    That is beyond all nodes where it is handed on.
    """
    last = dict[fx.Node, int]()
    for node in reversed(graph.nodes):
        last[node] = order[node]
        for user in node.users:
            if user.op == "output":
                last[node] = len(order)
            else:
                last[node] = max(last[node], last[user] if may_view(user, node) else order[user])
    return last


def _forms(node: fx.Node) -> list[Place] | None:
    """Those of all results, if none of them is large or has gaps."""
    values = node.meta["val"]
    several = values if isinstance(values, tuple | list) else (values,)
    for x in several:
        if not isinstance(x, Tensor) or x.numel() * x.element_size() > LARGE:
            return None
        if torch.empty_like(x, device="meta").stride() != x.stride():
            return None
    return [Place(tuple(x.shape), x.stride(), x.dtype) for x in several]


def _writing(node: fx.Node) -> Operation | None:
    """The form of a node's operation that writes into places, if there is a kernel for it."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    given = zip(node.target._schema.arguments, node.args, strict=False)
    if any(str(a.type) == "Tensor" and not isinstance(x, fx.Node) for a, x in given):
        return None  # numbers for tensors
    return _writing_form(node.target)


@cache
def _writing_form(op: Operation) -> Operation | None:
    mine = op._schema
    if any(str(r.type) != "Tensor" or r.alias_info is not None for r in mine.returns):
        return None
    wanted = [(a.name, str(a.type)) for a in mine.arguments]
    for name in op.overloadpacket.overloads():
        other: Operation = getattr(op.overloadpacket, name)
        theirs = other._schema.arguments
        out = [a for a in theirs if a.is_out]
        if (
            len(out) == len(mine.returns) > 0
            and [(a.name, str(a.type)) for a in theirs if not a.is_out] == wanted
            and other.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU)
        ):
            return other
    return None
