"""A traced step as C++: its statements, their order, and where their results are stored.

An elementwise operation is a loop, or part of the loop that reads its result. Results that become
the next carry overwrite the old one as soon as nobody reads that any more.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from unalike.native.loops import Buffer, Lazy, Unsupported, Value, dense, size_of
from unalike.native.pointwise import ARITHMETIC, ATEN, COMPARISON, FILLED, NAMES, number
from unalike.native.statements import (
    computed,
    copied,
    product,
    rows_chosen,
    summed,
)

VIEWS = {
    ATEN.view.default,
    ATEN._unsafe_view.default,
    ATEN.reshape.default,
    ATEN.t.default,
    ATEN.transpose.int,
    ATEN.permute.default,
    ATEN.expand.default,
    ATEN.select.int,
    ATEN.slice.Tensor,
    ATEN.squeeze.dim,
    ATEN.squeeze.default,
    ATEN.unsqueeze.default,
    ATEN.detach.default,
    ATEN.alias.default,
}
PIECES = {ATEN.split.Tensor, ATEN.unbind.int, ATEN.split_with_sizes.default}


@dataclass(eq=False)
class Statement:
    """Something that writes one result."""

    out: Value
    reads: list[Value]
    code: Callable[[], list[str]]
    over: list[Value]  # of what it reads: what may be the memory it writes


class Emitter:
    """The statements of a step."""

    def __init__(self) -> None:
        self.of: dict[fx.Node, Value | Lazy] = {}
        self.before: list[Statement] = []  # once for each client
        self.steps: list[Statement] = []
        self.same: Iterable[fx.Node] = ()
        self.unmeasured: set[Buffer] = set()  # of as many rows as there happen to be
        self.drawn: set[Buffer] = set()  # the numbers of such rows
        self.now: list[Statement] = self.steps
        self._count = 0

    def buffer(self, dtype: torch.dtype, size: int, name: str = "") -> Buffer:
        """One more."""
        if dtype not in NAMES:
            raise Unsupported(f"{dtype} is not known")
        self._count += 1
        return Buffer(name or f"b{self._count}", dtype, size)

    def given(self, node: fx.Node, name: str) -> Value:
        """An input, or a constant."""
        x: Tensor = node.meta["val"]
        extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
        value = Value(self.buffer(x.dtype, extent, name), 0, tuple(x.shape), x.stride())
        self.of[node] = value
        return value

    def place(self, x: Tensor) -> Value:
        """Memory for a result."""
        if not dense(x):
            raise Unsupported("a result with gaps")
        return Value(self.buffer(x.dtype, x.numel()), 0, tuple(x.shape), x.stride())

    def write(
        self,
        out: Value,
        reads: Iterable[Value],
        code: Callable[[], list[str]],
        over: Iterable[Value] = (),
    ) -> Value:
        """One more statement."""
        reads = list(reads)
        if any(x.buffer in self.unmeasured for x in reads):
            raise Unsupported("it reads all rows of the data")
        self.now.append(Statement(out, reads, code, list(over)))
        return out

    def kept(self, x: Value | Lazy, like: Tensor | None = None) -> Value:
        """In memory."""
        if isinstance(x, Value):
            return x
        out = self.place(torch.empty(x.shape, dtype=x.dtype) if like is None else like)
        reads = list(x.values())
        same = [v for v in reads if v.lies_as(out)]
        over = same if len(same) == len(reads) else [v for v in same if _once(v, reads)]
        return self.write(out, reads, lambda: computed(out, x), over)

    def add(self, node: fx.Node) -> None:
        """The statements of one more operation."""
        self.now = self.before if node in self.same else self.steps
        found = self._result(node)
        if isinstance(found, Lazy) and not self._inlined(node, found):
            found = self.kept(found, node.meta["val"])
        if found is not None:
            self.of[node] = found

    def _inlined(self, node: fx.Node, x: Lazy) -> bool:
        """Whether it is computed where it is read, which is in one place."""
        if not x.operands:
            return True
        if len(node.users) != 1 or size_of(x.shape) == 1:
            return False
        (user,) = node.users
        if (node in self.same) != (user in self.same) or user.op != "call_function":
            return False
        if user.target in (ATEN.sum.default, ATEN.sum.dim_IntList):
            return True
        pointwise = user.target in ARITHMETIC or user.target in COMPARISON
        return pointwise and tuple(user.meta["val"].shape) == x.shape

    def arguments(self, node: fx.Node) -> dict[str, Any]:
        """By name, with those that were left out; nodes are what they became."""
        schema, found = node.target._schema, dict[str, Any]()  # type: ignore[union-attr]
        for i, a in enumerate(schema.arguments):
            x = node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
            found[a.name] = fx.node.map_arg(x, self._known) if x is not None else None
        return found

    def _known(self, node: fx.Node) -> Any:
        return self.of.get(node)

    def _result(self, node: fx.Node) -> Value | Lazy | None:
        target, val = node.target, node.meta["val"]
        if target is operator.getitem:
            return self._piece(node)
        if target in PIECES or (target is ATEN.nll_loss_forward.default and not _losses(node)):
            return None
        if not isinstance(target, torch._ops.OpOverload):
            raise Unsupported(f"{target} is not known")
        given = self.arguments(node)
        if target in FILLED:
            return self._filled(val, FILLED[target](given))
        if target in VIEWS:
            return self._view(node.args[0], val)  # type: ignore[arg-type]
        if target in ARITHMETIC or target in COMPARISON or target is ATEN.where.self:
            return self._pointwise(target, given, val)
        write = WRITTEN.get(target)
        if write is None:
            raise Unsupported(f"{target} is not known")
        return write(self, given, val)

    def _filled(self, val: Tensor, x: Any) -> Lazy:
        text = number(x, val.dtype)
        return Lazy(lambda _: text, [], tuple(val.shape), val.dtype)

    def _piece(self, node: fx.Node) -> Value | Lazy | None:
        whole: fx.Node = node.args[0]  # type: ignore[assignment]
        if whole.target in PIECES:
            return self._view(whole.args[0], node.meta["val"])  # type: ignore[arg-type]
        if whole.target is ATEN.nll_loss_forward.default:
            return self.of.get(whole) if node.args[1] == 0 else None
        raise Unsupported(f"several results of {whole.target}")

    def _view(self, base: fx.Node, val: Tensor) -> Value | Lazy:
        x, held = self.of[base], base.meta["val"]
        if isinstance(x, Lazy):
            if x.operands:
                raise Unsupported("a view of what is not in memory")
            return Lazy(x.text, [], tuple(val.shape), x.dtype)
        if val.untyped_storage().data_ptr() != held.untyped_storage().data_ptr():
            raise Unsupported("a view that may be a copy")
        offset = x.offset + val.storage_offset() - held.storage_offset()
        return Value(x.buffer, offset, tuple(val.shape), val.stride())

    def _pointwise(self, target: Any, given: dict[str, Any], val: Tensor) -> Lazy:
        inputs, kind = list(given.values()), val.dtype
        if target in COMPARISON:
            kinds = [x.dtype for x in inputs if isinstance(x, Value | Lazy)]
            kind = kinds[0] if len(kinds) == 1 else torch.promote_types(*kinds)
            if any(isinstance(x, float) for x in inputs) and not kind.is_floating_point:
                raise Unsupported("integers that are compared with a number that is none")
        if target in (ATEN.clone.default, ATEN._to_copy.default):
            inputs = inputs[:1]
        make = COMPARISON.get(target) or ARITHMETIC.get(target)
        operands = [x for x in inputs if isinstance(x, Value | Lazy)]
        shape = tuple(val.shape)
        operands = [
            x if isinstance(x, Value) or x.shape == shape else self._held(x) for x in operands
        ]
        if any(not isinstance(x, Value | Lazy | int | float | None) for x in inputs):
            raise Unsupported(f"arguments of {target}")

        def text(names: list[str]) -> str:
            names = list(names)
            if make is None:
                return f"({names[0]} ? {_cast(names[1], kind)} : {_cast(names[2], kind)})"
            parts = list[str | None]()
            for x in inputs:
                if isinstance(x, Value | Lazy):
                    name = names.pop(0)
                    parts.append(name if x.dtype == kind else _cast(name, kind))
                else:
                    parts.append(None if x is None else number(x, kind))
            return make(*parts)

        return Lazy(text, operands, shape, val.dtype)

    def _held(self, x: Lazy) -> Value | Lazy:
        """Of another shape than its reader: a number that fills it is nevertheless a number."""
        return x if not x.operands else self.kept(x)


def _cast(name: str, kind: torch.dtype) -> str:
    return f"({name} != 0)" if kind == torch.bool else f"(({NAMES[kind]}){name})"


def _once(x: Value, reads: list[Value]) -> bool:
    """Whether nothing else of the same memory is read."""
    return all(v.buffer is not x.buffer or v.lies_as(x) for v in reads)


def _losses(node: fx.Node) -> bool:
    """Whether somebody wants the losses themselves."""
    return any(u.target is operator.getitem and u.args[1] == 0 and u.users for u in node.users)


def _mm(e: Emitter, given: dict[str, Any], val: Tensor) -> Value:
    a, b, out = e.kept(given["self"]), e.kept(given["mat2"]), e.place(val)
    return e.write(out, [a, b], lambda: product(out, a, b))


def _addmm(e: Emitter, given: dict[str, Any], val: Tensor) -> Value:
    p, a, b = given["self"], e.kept(given["mat1"]), e.kept(given["mat2"])
    beta, alpha, out = given["beta"], given["alpha"], e.place(val)
    p = e.kept(p)
    scaled = Lazy(
        lambda names: f"({number(beta, val.dtype)} * {names[0]})", [p], out.shape, val.dtype
    )

    def code() -> list[str]:
        if beta == 1:
            return product(out, a, b, add=p, alpha=alpha)
        return [*computed(out, scaled), *product(out, a, b, add=out, alpha=alpha)]

    over = [p] if p.lies_as(out) and _once(p, [p, a, b]) else []
    return e.write(out, [p, a, b], code, over)


def _sum(e: Emitter, given: dict[str, Any], val: Tensor) -> Value:
    x, out = given["self"], e.place(val)
    reduced = given.get("dim")
    every = range(len(x.shape))
    dims = {d % len(x.shape) for d in reduced} if reduced else set(every)
    reads = [x] if isinstance(x, Value) else list(x.values())
    return e.write(out, reads, lambda: summed(out, x, dims))


def _rows(e: Emitter, given: dict[str, Any], val: Tensor) -> Value:
    x, rows, out = given["self"], e.kept(given["index"]), e.place(val)
    if given["dim"] != 0 or not isinstance(x, Value) or not out.in_order:
        raise Unsupported("a choice along another axis")
    if x.buffer not in e.unmeasured:
        return e.write(out, [x, rows], lambda: rows_chosen(out, x, rows, x.shape[0]))
    if rows.buffer not in e.drawn:
        raise Unsupported("rows of the data other than those of a minibatch")
    return e.write(out, [rows], lambda: rows_chosen(out, x, rows, 0))


def _log_softmax(e: Emitter, given: dict[str, Any], val: Tensor) -> Value:
    x, out = e.kept(given["self"]), e.place(val)
    m, n = _rows_of(given["dim"], x, out)
    call = f"log_softmax<{out.buffer.type}, {m}, {n}>"
    return e.write(out, [x], lambda: [f"{call}({x.at}, {out.at});"])


def _log_softmax_backward(e: Emitter, given: dict[str, Any], val: Tensor) -> Value:
    g, y, out = e.kept(given["grad_output"]), e.kept(given["output"]), e.place(val)
    m, n = _rows_of(given["dim"], g, y, out)
    call = f"log_softmax_backward<{out.buffer.type}, {m}, {n}>"
    return e.write(out, [g, y], lambda: [f"{call}({g.at}, {y.at}, {out.at});"])


def _rows_of(dim: int, *several: Value) -> tuple[int, int]:
    shape = several[0].shape
    if dim % len(shape) != len(shape) - 1 or not all(x.in_order for x in several):
        raise Unsupported("a softmax along another axis than the last")
    return size_of(shape[:-1]), shape[-1]


def _nll(e: Emitter, given: dict[str, Any], val: Any) -> Value:
    y, label, out = e.kept(given["self"]), e.kept(given["target"]), e.place(val[0])
    m, n = _plain(given, y, label)
    call = f"nll<{out.buffer.type}, {m}, {n}>"
    ends = f", {out.at}, {given['ignore_index']})) return 1;"
    return e.write(out, [y, label], lambda: [f"if (!{call}({y.at}, {label.at}{ends}"])


def _nll_backward(e: Emitter, given: dict[str, Any], val: Tensor) -> Value:
    g, label, out = e.kept(given["grad_output"]), e.kept(given["target"]), e.place(val)
    m, n = _plain(given, out, label)
    call, step = f"nll_backward<{out.buffer.type}, {m}, {n}>", g.over((m,))[0]

    def code() -> list[str]:
        ends = f"{out.at}, {given['ignore_index']})) return 1;"
        return [f"if (!{call}({g.at}, {step}, {label.at}, {ends}"]

    return e.write(out, [g, label], code)


def _plain(given: dict[str, Any], y: Value, label: Value) -> tuple[int, int]:
    """Of losses row by row, without weights."""
    if given["weight"] is not None or given["reduction"] != 0 or len(y.shape) != 2:
        raise Unsupported("a loss that is not that of each row")
    if not (y.in_order and label.in_order):
        raise Unsupported("rows of a loss that are not in order")
    return y.shape[0], y.shape[1]


def _joined(e: Emitter, given: dict[str, Any], val: Tensor) -> Value:
    """One after the other, in slices of the result."""
    out, dim, at = e.place(val), given["dim"] % val.ndim, 0
    parts = [e.kept(x) for x in given["tensors"]]
    pieces = list[tuple[Value, Value]]()
    for x in parts:
        size = x.shape[dim] if len(x.shape) == val.ndim else 1
        shape = (*out.shape[:dim], size, *out.shape[dim + 1 :])
        slot = Value(out.buffer, at * out.strides[dim], shape, out.strides)
        if len(x.shape) < val.ndim:  # stacked
            steps = (*x.strides[:dim], 0, *x.strides[dim:])
            x = Value(x.buffer, x.offset, shape, steps)
        pieces.append((slot, x))
        at += size
    return e.write(out, parts, lambda: [t for slot, x in pieces for t in copied(slot, x)])


WRITTEN: dict[Any, Callable[[Emitter, dict[str, Any], Any], Value]] = {
    ATEN.mm.default: _mm,
    ATEN.addmm.default: _addmm,
    ATEN.sum.default: _sum,
    ATEN.sum.dim_IntList: _sum,
    ATEN.index_select.default: _rows,
    ATEN._log_softmax.default: _log_softmax,
    ATEN._log_softmax_backward_data.default: _log_softmax_backward,
    ATEN.nll_loss_forward.default: _nll,
    ATEN.nll_loss_backward.default: _nll_backward,
    ATEN.cat.default: _joined,
    ATEN.stack.default: _joined,
}
