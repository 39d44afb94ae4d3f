"""Products of a recorded step, merged with the operations that use them.

A dense layer's gradient is a product that is stored only to be added to the weights, which takes
two unnecessary passes over all weights. PyTorch's compiler merges everything but products, so this
is done before it sees a step.
"""

from collections.abc import Callable
from operator import getitem
from typing import Any, NamedTuple

from torch import Tensor, fx, ops

from unalike.kernels import dense
from unalike.kernels.linear import input_gradient, product, weight_gradient

_VIEWS = {"view", "_unsafe_view", "expand", "transpose", "squeeze", "unsqueeze", "permute"}


class _Seen(NamedTuple):
    """A node behind views of it."""

    node: fx.Node
    turned: bool  # whether they swap its last two axes


def merge(graph: fx.Graph) -> int:
    """How many products were merged with a step of descent; the rest of ``graph`` stays."""
    found = sum(_moved(graph, node) for node in list(graph.nodes) if _name(node) == "addcmul")
    for node in list(graph.nodes):
        if _name(node) == "bmm":
            _narrowed(graph, node)
        elif node.target is product:
            _rounded(graph, node)
    graph.eliminate_dead_code()
    return found


def _moved(graph: fx.Graph, node: fx.Node) -> bool:
    """w + (g'x) step, with one step for all."""
    args = _args(node)
    if node.kwargs or not all(isinstance(x, fx.Node) for x in args):
        return False
    w, gradient, step = args
    seen = _behind(gradient, alone=True)
    pair = None if seen is None else _outer(graph, seen)
    if pair is None or _of(step).numel() != 1 or _of(w).shape != _of(node).shape:
        return False
    g, x = pair
    if _of(w).ndim != 3 or _of(w).shape[1:] != (_of(g).shape[2], _of(x).shape[2]):
        return False
    if _of(x).shape[1] > dense.FEW and _of(x).element_size() > 2:
        return False  # the library's product is so much faster that a pass more is worth it
    _replace(graph, node, dense.moved, (w, g, x, step))
    return True


def _outer(graph: fx.Graph, seen: _Seen) -> tuple[fx.Node, fx.Node] | None:
    """(g, x) with rows in the middle, if a node is the product g'x."""
    node, turned = seen
    if node.target is weight_gradient:
        x, g = _args(node)
        return (x, g) if turned else (g, x)
    if _name(node) != "bmm":
        return None
    left, right = _args(node)  # (a b) = (a')' b, and (a b)' = b' a'
    return (right, _turned(graph, left, node)) if turned else (_turned(graph, left, node), right)


def _narrowed(graph: fx.Graph, node: fx.Node) -> None:
    """x w', with few rows."""
    x, right = _args(node)
    seen = _behind(right)
    rows, inputs = _of(x).shape[1:]
    if seen is None or not seen.turned or rows > dense.FEW or inputs < dense.LONG:
        return
    _replace(graph, node, dense.narrow, (x, seen.node))


def _rounded(graph: fx.Graph, node: fx.Node) -> None:
    """x short', with weights that are rounded first, as they are for the way back."""
    x, _, short = _args(node)
    seen = _behind(short)
    if seen is None or seen.turned or _name(seen.node) != "_to_copy":
        return
    w: fx.Node = _args(seen.node)[0]
    while _name(w) in ("detach", "alias"):
        w = _args(w)[0]
    rows, inputs = _of(x).shape[1:]
    few = rows <= dense.ROWS and inputs >= dense.LONG
    if not few or _of(w).element_size() != 4 or _of(x).element_size() != 2:
        return
    later = {other for other in graph.nodes if other.target is input_gradient}
    later = {other for other in later if _behind(_args(other)[2]) == seen}
    with graph.inserting_before(node):
        pair = graph.call_function(dense.rounded, (x, w))
        new, copy = (graph.call_function(getitem, (pair, i)) for i in range(2))
    new.meta["val"], copy.meta["val"] = _of(node), _of(seen.node)
    node.replace_all_uses_with(new)
    for other in later:
        other.args = (*_args(other)[:2], copy)


def _behind(node: fx.Node, *, alone: bool = False) -> _Seen | None:
    """What a node is a view of, if it is that, or that with its last two axes swapped.

    ``alone``: nobody else may use any of it.
    """
    base = node
    while not (alone and len(base.users) > 1) and _name(base) in _VIEWS:
        base = _args(base)[0]
    if (alone and len(base.users) > 1) or _of(base).ndim != 3:
        return None
    for turned in (False, True):
        if _layout(_of(node)) == _layout(_of(base).transpose(1, 2) if turned else _of(base)):
            return _Seen(base, turned)
    return None


def _layout(x: Tensor) -> list[tuple[int, int]]:
    """Sizes and steps through memory of the axes that there is something along."""
    return [(n, step) for n, step in zip(x.shape, x.stride(), strict=True) if n > 1]


def _turned(graph: fx.Graph, node: fx.Node, before: fx.Node) -> fx.Node:
    """The node with its last two axes swapped."""
    seen = _behind(node)
    if seen is not None and seen.turned:
        return seen.node
    with graph.inserting_before(before):
        other = graph.call_function(ops.aten.transpose.int, (node, 1, 2))
    other.meta["val"] = _of(node).transpose(1, 2)
    return other


def _replace(
    graph: fx.Graph, node: fx.Node, op: Callable[..., Any], args: tuple[fx.Node, ...]
) -> None:
    with graph.inserting_before(node):
        new = graph.call_function(op, args)
    new.meta["val"] = _of(node)
    node.replace_all_uses_with(new)


def _args(node: fx.Node) -> tuple[Any, ...]:
    return node.args


def _of(node: fx.Node) -> Tensor:
    """What it was when the step was recorded."""
    found: Tensor = node.meta["val"]
    return found


def _name(node: fx.Node) -> str:
    """Of an operation of PyTorch's own, such as ``bmm``."""
    found = str(node.target) if node.op == "call_function" else ""
    return found.split(".")[1] if found.startswith("aten.") else ""
