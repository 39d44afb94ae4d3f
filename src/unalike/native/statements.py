"""The text of single statements."""

import torch

from unalike.native.loops import Axis, Body, Lazy, Unsupported, Value, axes, index, nest, size_of
from unalike.native.pointwise import NAMES, number

LONG = 1024  # numbers whose sum is made in double precision


class _Read:
    """How an expression is read in loops whose first operand is a result."""

    def __init__(self, x: Value | Lazy) -> None:
        found = [x] if isinstance(x, Value) else list(x.values())
        self.x, self.leaves = x, list({id(v): v for v in found}.values())

    def strides(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [v.over(shape) for v in self.leaves]

    def ahead(self, shape: tuple[int, ...]) -> list[str]:
        """Numbers that are the same all over are read once."""
        lines = list[str]()
        for i, v in enumerate(self.leaves):
            if not any(v.over(shape)):
                lines.append(f"const {v.buffer.type} h{i} = {v.at}[0];")
        return lines

    def body(self, loops: list[Axis], shape: tuple[int, ...], first: int) -> tuple[list[str], str]:
        """(lines, the name of the result) where operands begin with number ``first``."""
        place, body = {id(v): i for i, v in enumerate(self.leaves)}, Body()

        def read(v: Value) -> str:
            i = place[id(v)]
            return f"{v.at}[{index(loops, first + i)}]" if any(v.over(shape)) else f"h{i}"

        return body.lines, body(self.x, read)


def computed(out: Value, x: Value | Lazy) -> list[str]:
    """``out = x``, number by number."""
    read, shape = _Read(x), out.shape
    loops = axes(shape, [out.over(shape), *read.strides(shape)])
    lines, result = read.body(loops, shape, 1)
    store = f"{out.at}[{index(loops, 0)}] = {result};"
    return ["{", *read.ahead(shape), *nest(loops, [*lines, store]), "}"]


def copied(out: Value, x: Value) -> list[str]:
    """The numbers of another."""
    if out.in_order and x.in_order and out.shape == x.shape:
        size = f"sizeof({out.buffer.type}) * {size_of(out.shape)}"
        return [f"std::memcpy({out.at}, {x.at}, {size});"]
    return computed(out, x)


def summed(out: Value, x: Value | Lazy, dims: set[int]) -> list[str]:
    """The sum along some axes."""
    read, shape = _Read(x), x.shape
    kept = [d for d in range(len(shape)) if d not in dims]
    steps = [0] * len(shape)
    own = out.strides if len(out.shape) == len(kept) else [out.strides[d] for d in kept]
    for d, s in zip(kept, own, strict=True):
        steps[d] = s
    strides = [*read.strides(shape), tuple(steps)]

    def along(some: list[int]) -> list[Axis]:
        picked = [tuple(s[d] for d in some) for s in strides]
        return axes(tuple(shape[d] for d in some), picked)

    outer, inner = along(kept), along(sorted(dims))
    last = len(read.leaves)
    near = [
        min((abs(a.steps[0]) or 1 << 60 for a in some), default=1 << 60) for some in (outer, inner)
    ]
    kind = NAMES[out.dtype]
    if outer and near[0] < near[1]:  # rows are added to the result
        loops = inner + outer
        lines, result = read.body(loops, shape, 0)
        add = f"{out.at}[{index(loops, last)}] += {result};"
        empty = [f"std::memset({out.at}, 0, sizeof({kind}) * {size_of(out.shape)});"]
        return ["{", *empty, *read.ahead(shape), *nest(loops, [*lines, add]), "}"]
    long = out.dtype == torch.float32 and size_of(shape) > LONG * size_of(out.shape)
    loops = outer + inner
    lines, result = read.body(loops, shape, 0)
    text = ["{", *read.ahead(shape)]
    for d, axis in enumerate(outer):
        text.append(f"for (int64_t i{d} = 0; i{d} < {axis.size}; i{d}++) {{")
    text.append(f"{'double' if long else kind} sum = 0;")
    for d, axis in enumerate(inner, len(outer)):
        if d == len(loops) - 1:
            text.append("#pragma omp simd reduction(+ : sum)")
        text.append(f"for (int64_t i{d} = 0; i{d} < {axis.size}; i{d}++) {{")
    text += [*lines, f"sum += {result};", "}" * len(inner)]
    return [*text, f"{out.at}[{index(outer, last)}] = sum;", "}" * len(outer), "}"]


def product(
    out: Value, a: Value, b: Value, *, add: Value | None = None, alpha: float = 1
) -> list[str]:
    """``out = a @ b``, or that added to something, which may be what is there."""
    given = [x for x in (out, a, b, add) if x is not None]
    if len({x.dtype for x in given}) > 1 or not out.dtype.is_floating_point:
        raise Unsupported("a product of other numbers than of one precision")
    (m, k), n = a.shape, b.shape[1]
    added = (0, 0) if add is None else add.over(out.shape)
    sizes = ", ".join(map(str, (m, n, k, *a.strides, *b.strides, *out.strides, *added)))
    call = f"product<{out.buffer.type}, {str(add is not None).lower()}, {sizes}>"
    more = "nullptr" if add is None else add.at
    return [f"{call}({a.at}, {b.at}, {out.at}, {more}, {number(alpha, out.dtype)});"]


def rows_chosen(out: Value, x: Value, rows: Value, limit: int) -> list[str]:
    """Rows of ``x`` by their numbers; how many there are is 0 where all numbers are known to be.

    Those are rows of the data, which are nowhere near: the next step's are fetched ahead.
    """
    one = Value(x.buffer, x.offset, x.shape[1:], x.strides[1:])
    size, step = size_of(one.shape), rows.strides[0]
    if not one.in_order:
        raise Unsupported("rows that are not in order")
    lines = [
        f"for (int64_t r = 0; r < {rows.shape[0]}; r++) {{",
        f"const int64_t row = {rows.at}[r * {step}];",
    ]
    if limit:
        lines.append(f"if (row < 0 || row >= {limit}) return 2;")
    where, bytes_ = f"{one.at} + row * {x.strides[0]}", f"sizeof({out.buffer.type}) * {size}"
    lines.append(f"std::memcpy({out.at} + r * {size}, {where}, {bytes_});")
    if not limit:
        soon = f"{rows.buffer.name}_next[{rows.offset} + r * {step}]"
        ahead = f"fetched({one.at} + {soon} * {x.strides[0]}, {bytes_});"
        lines.append(f"if ({rows.buffer.name}_next) {ahead}")
    return [*lines, "}"]
