"""A traced step, with the loops over clients and steps around it, as the text of a program."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, fx

from unalike.native.emit import Emitter, Statement
from unalike.native.loops import Buffer, Lazy, Value
from unalike.native.pointwise import FILLED
from unalike.native.statements import copied

ALIGNED = 64  # bytes


class Inputs(NamedTuple):
    """Of a graph."""

    carry: list[fx.Node]
    rows: list[fx.Node]  # tensors of as many rows as there happen to be, of which minibatches are
    fixed: list[fx.Node]
    now: list[fx.Node]  # what a step sees, the numbers of its rows first


class Written(NamedTuple):
    """A program, and what it wants beside its text."""

    text: str
    constants: list[Tensor]  # after all inputs
    bytes: int  # of memory for its results,
    carried: int  # and behind that for the carry of one client, where nobody wants it in the end


def written(
    graph: fx.GraphModule, inputs: Inputs, same: Iterable[fx.Node], order: list[fx.Node]
) -> Written:
    """The text for a graph that is free of operations that write into their inputs.

    ``same`` is computed once for each client. A pointer to each of ``order`` is handed over, which
    are all inputs of the graph, after those to the results.

    The first step reads the carry where it comes from and writes it where it is to be, so that it
    need not be copied. Instead of the carry itself, or in addition, a client may output its
    displacement, as ``went`` of step.hpp computes it.

    The pointers for this come last: where displacements start, where they are written or summed,
    each client's weight in a sum, lengths, and the largest length for a sum. Clients come in units,
    which are computed in sequence and summed together. Threads that call the program at the same
    time take the next free unit.
    """
    e, constants = Emitter(), list[fx.Node]()
    e.same = set(same)
    names = {
        n: f"{kind}{i}"
        for kind, some in zip("crfn", inputs, strict=True)
        for i, n in enumerate(some)
    }
    for node, name in names.items():
        e.given(node, name)
    for i, node in enumerate(inputs.carry):
        _value(e, node).buffer.next = f"w{i}"
    e.unmeasured = {e.of[n].buffer for n in inputs.rows}  # type: ignore[union-attr]
    e.drawn = {e.of[n].buffer for n in inputs.now[:1]}  # type: ignore[union-attr]
    nodes = list(graph.graph.nodes)
    for node in nodes:
        if node.op == "get_attr" or _made_of_nothing(node):
            e.given(node, f"k{len(constants)}")
            constants.append(node)
        elif node.op == "call_function":
            e.add(node)
    results = next(n for n in nodes if n.op == "output").args[0]
    carry = [_value(e, n) for n in inputs.carry]
    ends = _ends(e, carry, list(results))
    memory = _Memory()
    for s in e.before:
        memory.keep(s.out.buffer)
    memory.share(e.steps, {new.buffer for _, new in ends})
    text = _text(e, [*order, *constants], carry, ends, memory)
    held = sum(_bytes(x.buffer) for x in carry)
    return Written(text, [n.meta["val"] for n in constants], memory.size, held)


def _made_of_nothing(node: fx.Node) -> bool:
    """Whether its numbers are always the same, as those of a range."""
    made = node.op == "call_function" and not node.all_input_nodes and node.target not in FILLED
    return made and isinstance(node.meta["val"], Tensor)


def _value(e: Emitter, node: fx.Node) -> Value:
    found = e.of[node]
    assert isinstance(found, Value), "an input is in memory"
    return found


def _ends(e: Emitter, carry: list[Value], results: list[fx.Node]) -> list[tuple[Value, Value]]:
    """Let results lie where the old carry is, if it is not read later; what is to be copied."""
    e.now = e.steps
    found = list[Value]()
    for node in results:
        x = e.of[node]
        x = e.kept(x, node.meta["val"]) if isinstance(x, Lazy) else x
        if not any(s.out.buffer is x.buffer for s in e.steps):  # handed on as it came in
            out = e.place(torch.empty(x.shape, dtype=x.dtype))
            x = e.write(out, [x], lambda out=out, x=x: copied(out, x))  # type: ignore[misc]
        found.append(x)
    last = {x.buffer for x in found}
    read = {v.buffer for s in e.steps for v in s.reads}
    e.steps.sort(key=lambda s: s.out.buffer in last and s.out.buffer not in read)
    copies, taken = list[tuple[Value, Value]](), set[Buffer]()
    for old, new in zip(carry, found, strict=True):
        if new.buffer not in taken and _written_over(e.steps, old, new):
            new.buffer.same_as = old.buffer
            taken.add(new.buffer)
        else:
            copies.append((old, new))
    return copies


def _written_over(steps: list[Statement], old: Value, new: Value) -> bool:
    """Whether a result can be written where the old value is."""
    at = next(i for i, s in enumerate(steps) if s.out.buffer is new.buffer)
    if not new.lies_as(old) or not steps[at].out.lies_as(old):
        return False
    if sum(s.out.buffer is new.buffer for s in steps) > 1:
        return False
    if any(v.buffer is old.buffer for s in steps[at + 1 :] for v in s.reads):
        return False
    here = [v for v in steps[at].reads if v.buffer is old.buffer]
    return all(any(v is o for o in steps[at].over) for v in here)


class _Memory:
    """Where results lie in the memory of a worker, in bytes."""

    def __init__(self) -> None:
        self.at: dict[Buffer, int] = {}
        self.size = 0

    def keep(self, buffer: Buffer) -> None:
        """For all steps of a client."""
        self.at[buffer] = self.size
        self.size += _bytes(buffer)

    def share(self, steps: list[Statement], last: set[Buffer]) -> None:
        """Results of a step, which may lie where others were that nobody reads any more."""
        until = dict[Buffer, int]()
        for i, s in enumerate(steps):
            for v in s.reads:
                until[v.buffer] = i
        held, base = list[tuple[int, Buffer]](), self.size
        for i, s in enumerate(steps):
            if s.out.buffer.same_as is not None:
                continue
            held = [(end, b) for end, b in held if end >= i]
            at = base
            for b in sorted((b for _, b in held), key=self.at.__getitem__):
                if self.at[b] - at >= _bytes(s.out.buffer):
                    break
                at = max(at, self.at[b] + _bytes(b))
            self.at[s.out.buffer] = at
            self.size = max(self.size, at + _bytes(s.out.buffer))
            end = len(steps) if s.out.buffer in last else until.get(s.out.buffer, i)
            held.append((end, s.out.buffer))


def _bytes(buffer: Buffer) -> int:
    size = buffer.size * torch.empty(0, dtype=buffer.dtype).element_size()
    return -(-size // ALIGNED) * ALIGNED


def _text(
    e: Emitter,
    order: list[fx.Node],
    carry: list[Value],
    ends: list[tuple[Value, Value]],
    memory: _Memory,
) -> str:
    """Pointers are those to results, to inputs, to constants, and to ends; strides are as many."""
    begin, moment, n, at = list[str](), list[str](), len(carry), memory.size
    for i, x in enumerate(carry):
        kind, name, size = x.buffer.type, x.buffer.name, x.buffer.size
        wanted = f"p[{i}] ? p[{i}] + j * strides[{i}] : work + {at}"
        begin.append(f"{kind}* const w{i} = ({kind}*)({wanted});")
        begin.append(f"const char* const s{i} = p[{n + i}] + j * strides[{n + i}];")
        begin.append(f"if (!times[j]) std::memcpy(w{i}, s{i}, sizeof({kind}) * {size});")
        moment.append(f"const {kind}* const {name} = s ? w{i} : (const {kind}*)s{i};")
        at += _bytes(x.buffer)
    further = n + len(order)
    for i, node in enumerate(order, n):
        x = _value(e, node)
        kind, name = x.buffer.type, x.buffer.name
        where = f"p[{i}] + j * strides[{i}]"
        if name[0] == "n":  # the strides of steps come after those of clients
            step = f"strides[{further}]"
            moment.append(f"const {kind}* const {name} = (const {kind}*)({where} + s * {step});")
            if x.buffer in e.drawn:
                after = f"s + 1 < times[j] ? {name} + {step} / sizeof({kind}) : nullptr"
                moment.append(f"const {kind}* const {name}_next = {after};")
            further += 1
        elif name[0] != "c":
            begin.append(f"const {kind}* const {name} = (const {kind}*)({where});")
    for b, place in memory.at.items():
        begin.append(f"{b.type}* const {b.name} = ({b.type}*)(work + {place});")
    before = [line for s in e.before for line in s.code()]
    steps = [line for s in e.steps for line in s.code()]
    steps += [line for old, new in ends for line in copied(_next(old), new)]
    lines = [
        '#include "step.hpp"',
        'extern "C" int run(const int64_t* plan, char* const* p, const int64_t* strides,',
        "                   char* work, int64_t* next) {",
        "const int64_t units = plan[0], *const ends = plan + 1, *const order = ends + units + 1;",
        "const int64_t* const times = order + ends[units];",
        "int64_t unit;",
        "while ((unit = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < units) {",
        "for (int64_t i = ends[unit]; i < ends[unit + 1]; i++) {",
        "const int64_t j = order[i];",
        "const bool first = i == ends[unit];",
        *begin,
        *before,
        "for (int64_t s = 0; s < times[j]; s++) {",
        *moment,
        *steps,
        "}",
        *_gone(carry, n + len(order), further),
        "}",
        "}",
        "return 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _next(carry: Value) -> Value:
    """Where a carry is written."""
    x = carry.buffer
    return Value(Buffer(x.next, x.dtype, x.size), carry.offset, carry.shape, carry.strides)


def _gone(carry: list[Value], first: int, strides: int) -> list[str]:
    """The ways that a client went; their pointers and their strides begin with these numbers."""
    n, lines = len(carry), list[str]()
    u, lengths, longest = (f"p[{first + 2 * n + i}]" for i in range(3))
    for i, x in enumerate(carry):
        if x.dtype.is_floating_point:
            kind = x.buffer.type
            start = f"({kind}*)(p[{first + i}] + j * strides[{strides + i}])"
            target = f"({kind}*)(p[{first + n + i}] + at * strides[{strides + n + i}])"
            call = f"went<{kind}>(w{i}, {start}, {target}, {x.buffer.size}, u, first)"
            lines.append(f"if (p[{first + i}]) squares += {call};")
    return [
        f"if ({lengths}) {{",
        f"const double* const u = {u} ? (const double*){u} + j : nullptr;",
        "const int64_t at = u ? unit : j;",
        "double squares = 0;",
        *lines,
        "const double length = std::sqrt(squares);",
        f"((double*){lengths})[j] = length;",
        f"if (u && !(length <= *(const double*){longest})) break;  // no sum of this unit",
        "}",
    ]
