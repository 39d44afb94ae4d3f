"""Simplifies a traced step: nothing unused or twice is computed, nothing is copied needlessly.

The graph computes the next carry from (carry, fixed, now), each a contiguous range of its inputs.
What depends only on the fixed inputs is the same in every step and goes into a separate graph. An
update ``w + s (a @ b)`` becomes one matrix product that adds to ``w``, and tensors that the next
carry replaces are overwritten.
"""

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import fx

from unalike.engine.compiled.placing import Place, may_view, placed

ATEN = torch.ops.aten
_SAME = {ATEN.detach.default, ATEN.alias.default, ATEN.lift_fresh_copy.default}
MANY = 4  # products in a sum that are made one
_IN_PLACE = {
    ATEN.add.Tensor: ATEN.add_.Tensor,
    ATEN.addcmul.default: ATEN.addcmul_.default,
    ATEN.addmm.default: ATEN.addmm_.default,
    ATEN.mul.Tensor: ATEN.mul_.Tensor,
    ATEN.sub.Tensor: ATEN.sub_.Tensor,
}


class Parts(NamedTuple):
    """How many inputs of a step there are of each sort."""

    carry: int
    fixed: int
    now: int


class Step(NamedTuple):
    """A step that is free of operations that write into their inputs."""

    traced: fx.GraphModule
    carry: list[fx.Node]
    fixed: list[fx.Node]
    now: list[fx.Node]
    same: dict[fx.Node, None]  # what depends only on fixed inputs, in order

    @property
    def moment(self) -> list[fx.Node]:
        """Those inputs of the moment that it reads."""
        return [n for n in self.now if n.users]


class Rewritten(NamedTuple):
    """A step in two pieces."""

    before: fx.GraphModule  # from what stays the same to what steps read of it
    step: fx.GraphModule  # from (carry, that, now, places) to the next carry
    owned: list[int]  # leaves of the carry that a step writes into
    now: list[int]  # which of the inputs of the moment it reads
    places: list[Place]  # memory that it writes into


def simplified(traced: fx.GraphModule, parts: Parts) -> Step:
    """The same step, cheaper; the graph must be free of operations that write into their inputs."""
    graph = traced.graph
    for node in _calls(graph):
        if node.target in _SAME:
            _replace(node, node.args[0])
    _shapes_alone(graph)
    _transposed_twice(graph)
    graph.eliminate_dead_code()
    _rows_by_number(graph)
    _sums_of_products(graph)
    _products_that_add(graph)
    graph.eliminate_dead_code()
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    carry, rest = inputs[: parts.carry], inputs[parts.carry :]
    fixed, now = rest[: parts.fixed], rest[parts.fixed :]
    return Step(traced, carry, fixed, now, _same_in_every_step(graph, fixed))


def rewritten(step: Step) -> Rewritten:
    """Its pieces, whose results have places; the graph of the step is changed."""
    graph, same = step.traced.graph, step.same
    owned = _written_over(graph, step.carry)
    read = [n for n in same if any(u not in same for u in n.users) and n.op != "get_attr"]
    computed = [n for n in same if n.op == "call_function"]
    results = next(n for n in graph.nodes if n.op == "output").args[0]
    moving = [n for n in _calls(graph) if n not in same]
    places = placed(graph, moving)
    seen = {"carry": step.carry, "same": read, "now": step.moment, "places": list(places)}
    return Rewritten(
        _piece(step.traced, {"fixed": step.fixed}, computed, read),
        _piece(step.traced, seen, moving, list(results)),
        owned,
        [step.now.index(n) for n in step.moment],
        list(places.values()),
    )


def _calls(graph: fx.Graph, *targets: Any) -> Iterator[fx.Node]:
    for node in list(graph.nodes):
        if node.op == "call_function" and (not targets or node.target in targets):
            yield node


def _replace(node: fx.Node, by: Any) -> None:
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def _is(x: Any, target: Any) -> bool:
    return isinstance(x, fx.Node) and x.op == "call_function" and x.target is target


def _like(a: fx.Node, b: fx.Node) -> bool:
    """Whether two results have the same shape and type."""
    x, y = a.meta["val"], b.meta["val"]
    return bool(x.shape == y.shape and x.dtype == y.dtype)


def _shapes_alone(graph: fx.Graph) -> None:
    """What is filled with one number needs the shape of another tensor and not the tensor."""
    for node in _calls(graph, ATEN.ones_like.default, ATEN.zeros_like.default):
        like, value = node.meta["val"], float(node.target is ATEN.ones_like.default)
        if like.is_contiguous():
            with graph.inserting_before(node):
                args = (list(like.shape), value)
                new = graph.call_function(ATEN.full.default, args, {"dtype": like.dtype})
                _replace(node, _noted(new, node))


def _transposed_twice(graph: fx.Graph) -> None:
    for node in _calls(graph, ATEN.t.default):
        inner = node.args[0]
        if _is(inner, ATEN.t.default):
            node.replace_all_uses_with(cast(fx.Node, cast(fx.Node, inner).args[0]))


def _rows_by_number(graph: fx.Graph) -> None:
    """``x[rows]`` as the operation that does nothing else."""
    for node in _calls(graph, ATEN.index.Tensor):
        x, index = node.args
        first, *more = cast(list[Any], index)
        if more or not isinstance(first, fx.Node):
            continue
        rows = first.meta["val"]
        if rows.ndim == 1 and rows.dtype == torch.int64:
            node.target, node.args = ATEN.index_select.default, (x, 0, first)


def _sums_of_products(graph: fx.Graph) -> None:
    """Many thin products added up as one: those of all moments of a recurrent layer, for example.

    ``a_1 @ b_1 + a_2 @ b_2 + ...`` is ``[a_1 a_2 ...] @ [b_1; b_2; ...]``, one pass over the
    result in place of many.
    """
    for node in _calls(graph, ATEN.add.Tensor):
        if any(_plain_sum(u) and _like(u, node) for u in node.users) or not _plain_sum(node):
            continue  # a part of a longer sum
        thin, rest = list[tuple[Any, Any]](), list[fx.Node]()
        for term in _terms(node):
            factors = _thin(term)
            rest.append(term) if factors is None else thin.append(factors)
        if len(thin) < MANY:
            continue
        with graph.inserting_before(node):
            left = _side_by_side(graph, [a for a, _ in thin], 1)
            right = _side_by_side(graph, [b for _, b in thin], 0)
            total = _new(graph, ATEN.mm.default, left, right)
            for term in rest:
                total = _new(graph, ATEN.add.Tensor, term, total)
        _replace(node, total)


def _plain_sum(node: fx.Node) -> bool:
    if not _is(node, ATEN.add.Tensor) or node.kwargs:
        return False
    return all(isinstance(x, fx.Node) and _like(x, node) for x in node.args[:2])


def _terms(node: fx.Node) -> list[fx.Node]:
    """What a sum adds up, as far as nobody else reads a part of it."""
    found, open_ = list[fx.Node](), [node]
    while open_:
        here = open_.pop()
        if here is node or (_plain_sum(here) and len(here.users) == 1):
            open_ += cast(list[fx.Node], here.args[:2])
        else:
            found.append(here)
    return found


def _thin(term: fx.Node) -> tuple[Any, Any] | None:
    """The factors of a product that are together smaller than it, if nobody else reads it."""
    turned = _is(term, ATEN.t.default)
    product = cast(fx.Node, term.args[0]) if turned else term
    if not _is(product, ATEN.mm.default) or len(term.users) != 1 or len(product.users) != 1:
        return None
    a, b = cast(list[fx.Node], product.args)
    if a.meta["val"].numel() + b.meta["val"].numel() > product.meta["val"].numel():
        return None
    if not turned:
        return a, b
    with term.graph.inserting_before(term):
        return _transposed(term.graph, b), _transposed(term.graph, a)


def _side_by_side(graph: fx.Graph, several: list[fx.Node], axis: int) -> fx.Node:
    """Matrices as one; transposed ones as the transposed of one, so that they are read in order."""
    if all(_is(x, ATEN.t.default) for x in several):
        inner = [cast(fx.Node, x.args[0]) for x in several]
        return _transposed(graph, _new(graph, ATEN.cat.default, inner, 1 - axis))
    return _new(graph, ATEN.cat.default, several, axis)


def _transposed(graph: fx.Graph, x: fx.Node) -> fx.Node:
    inner = cast(fx.Node, x.args[0]) if _is(x, ATEN.t.default) else None
    return _new(graph, ATEN.t.default, x) if inner is None else inner


def _new(graph: fx.Graph, op: Any, *args: Any) -> fx.Node:
    """One more operation."""
    new = graph.call_function(op, args)
    new.meta["val"] = op(*fx.node.map_arg(args, lambda n: n.meta["val"]))
    return new


def _products_that_add(graph: fx.Graph) -> None:
    for node in _calls(graph, ATEN.add.Tensor, ATEN.addcmul.default):
        if node.target is ATEN.add.Tensor:
            _add_product(graph, node)
        else:
            _step_along_product(graph, node)


def _add_product(graph: fx.Graph, node: fx.Node) -> None:
    """``p + a @ b``, and ``c p + a @ b``, as one product."""
    for p, product in (node.args[:2], node.args[1::-1]):
        alone = _is(product, ATEN.mm.default) and len(product.users) == 1  # type: ignore[union-attr]
        if not alone or node.kwargs or not isinstance(p, fx.Node) or not _like(p, node):
            continue
        a, b = product.args  # type: ignore[union-attr]
        scaled = _is(p, ATEN.mul.Tensor) and isinstance(p.args[1], float) and len(p.users) == 1
        p, beta = p.args if scaled else (p, 1)
        with graph.inserting_before(node):
            _replace(
                node,
                _noted(graph.call_function(ATEN.addmm.default, (p, a, b), {"beta": beta}), node),
            )
        return


def _step_along_product(graph: fx.Graph, node: fx.Node) -> None:
    """``w + s (a @ b)`` with a number s as ``w + (s a) @ b``."""
    w, product, s = node.args
    alone = _is(product, ATEN.mm.default) and len(product.users) == 1  # type: ignore[union-attr]
    if not alone or node.kwargs or s.meta["val"].ndim or not _like(w, node):  # type: ignore[union-attr,arg-type]
        return
    a, b = product.args  # type: ignore[union-attr]
    size = min(x.meta["val"].numel() for x in (a, b))  # type: ignore[union-attr]
    if size > w.meta["val"].numel():  # type: ignore[union-attr]
        return
    if a.meta["val"].numel() == size:  # type: ignore[union-attr]
        a = _scaled(graph, node, a, s)
    else:
        b = _scaled(graph, node, b, s)
    with graph.inserting_before(node):
        _replace(node, _noted(graph.call_function(ATEN.addmm.default, (w, a, b)), node))


def _scaled(graph: fx.Graph, before: fx.Node, x: Any, s: Any) -> fx.Node:
    """A multiple of ``x``; of a transposed one, the transposed multiple, which stays in order."""
    turned = _is(x, ATEN.t.default)
    with graph.inserting_before(before):
        inner = x.args[0] if turned else x
        found = _noted(graph.call_function(ATEN.mul.Tensor, (inner, s)), inner)
        return _noted(graph.call_function(ATEN.t.default, (found,)), x) if turned else found


def _noted(new: fx.Node, like: fx.Node) -> fx.Node:
    new.meta["val"] = like.meta["val"]
    return new


def _same_in_every_step(graph: fx.Graph, fixed: list[fx.Node]) -> dict[fx.Node, None]:
    """What depends only on fixed inputs, in order."""
    same = dict.fromkeys(fixed)
    for node in graph.nodes:
        constant = node.op == "get_attr"
        if constant or (
            node.op == "call_function" and all(n in same for n in node.all_input_nodes)
        ):
            same[node] = None
    return same


def _written_over(graph: fx.Graph, carry: list[fx.Node]) -> list[int]:
    """Let updates write into the carry where nobody reads the old value later; which leaves."""
    order = {n: i for i, n in enumerate(graph.nodes)}
    output = next(n for n in graph.nodes if n.op == "output")
    results, owned = cast(list[Any], output.args[0]), list[int]()
    for i, (old, new) in enumerate(zip(carry, results, strict=True)):
        update = (
            isinstance(new, fx.Node)
            and new.op == "call_function"
            and new.target in _IN_PLACE
            and new.args[0] is old
            and _like(old, new)
            and list(new.users) == [output]
            and results.count(new) == 1
        )
        if update and _last_read(old, but=new, order=order) < order[new]:
            new.target = _IN_PLACE[new.target]
            owned.append(i)
    return owned


def _last_read(node: fx.Node, but: fx.Node, order: dict[fx.Node, int]) -> int:
    """The place of the last node that reads a tensor or a view of it."""
    last = -1
    for user in node.users:
        if user is but and user.args[0] is node and node not in user.args[1:]:
            continue
        last = max(last, order[user])
        if user.op == "call_function" and may_view(user, node):
            last = max(last, _last_read(user, but, order))
    return last


def _piece(
    whole: fx.GraphModule,
    inputs: dict[str, list[fx.Node]],
    nodes: list[fx.Node],
    outputs: list[Any],
) -> fx.GraphModule:
    """Some nodes of a graph as a function from lists of tensors to a list."""
    graph, place = fx.Graph(), dict[fx.Node, fx.Node]()
    for name, inside in inputs.items():
        several = graph.placeholder(name, type_expr=list[torch.Tensor])
        for i, n in enumerate(inside):
            place[n] = graph.call_function(operator.getitem, (several, i))

    def at(n: fx.Node) -> fx.Node:
        if n not in place and n.op == "get_attr":
            place[n] = graph.get_attr(n.target)  # type: ignore[arg-type]
        return place[n]

    for node in nodes:
        place[node] = new = graph.node_copy(node, at)
        if isinstance(node.target, torch._ops.OpOverload):  # TorchScript finds the overload itself
            new.target = node.target.overloadpacket
            new.kwargs = {k: v for k, v in new.kwargs.items() if k not in ("device", "pin_memory")}
    graph.output(fx.map_arg(outputs, at))
    return fx.GraphModule(whole, graph)
