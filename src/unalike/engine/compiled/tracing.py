"""One step as a graph of tensor operations, and a loop over it that gives the same numbers.

A step is traced, simplified and put into a loop, compiled or in TorchScript; then the loop is
compared with the step itself. What cannot be traced says why.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, fx

from unalike.engine.compiled.recording import recorded
from unalike.engine.compiled.rewriting import Parts, Step, simplified
from unalike.engine.compiled.scripted import Scripted, scripted
from unalike.native.build import NotBuilt, built
from unalike.native.loops import Unsupported
from unalike.native.program import Native
from unalike.native.write import Inputs, written

CLOSE = 1e-3  # how far off a traced step's change may be, relative to its length,
TINY = 1e-5  # and relative to the longest change and to the leaf itself


class Pure(Protocol):
    """A step as a function of tensors alone."""

    def __call__(self, *flat: Tensor) -> tuple[list[Tensor], int]:
        """(the next carry, how many gradients were taken)."""
        ...


class Untraceable(Exception):
    """Why a step must be run by Python."""


Run = Native | Scripted  # from (steps of each client, carry, fixed, now), clients in front


class Program(NamedTuple):
    """A loop over one traced step, for any number of clients."""

    run: Run
    passes: int  # gradients that one step takes
    unbuilt: str = ""  # why it is not compiled though it could be


def trace(
    call: Pure,
    native: bool,
    times: int,
    carry: list[Tensor],
    fixed: list[Tensor],
    now: list[Tensor],
) -> Program:
    """A checked loop over a step, traced on one client's tensors; Untraceable says why not."""
    passes, unbuilt, parts = 0, "", Parts(len(carry), len(fixed), len(now))

    def pure(*flat: Tensor) -> list[Tensor]:
        nonlocal passes
        found, passes = call(*flat)
        return found

    with torch.no_grad():
        times, wanted = min(2, times), carry
        for s in range(times):  # first of all: whatever a thread makes once is not traced
            wanted = pure(*wanted, *fixed, *(x[s] for x in now))
        first = [x[0] for x in now]

        def right(run: Run) -> bool:
            stacked = ([x[None] for x in xs] for xs in (carry, fixed, now))
            found = run([times], *stacked)  # type: ignore[arg-type]  # three, and no crew
            return _near(carry, wanted, [x[0] for x in found])

        def made(turned: list[bool]) -> Program:
            nonlocal unbuilt
            held = [_turned(x) if yes else x for x, yes in zip(carry, turned, strict=True)]
            # As objects of their own: a tensor that is carried and given would be taken for one.
            graph = _traced(pure, tuple(x.detach() for x in (*held, *fixed, *first)))
            step = simplified(graph, parts)
            if native and not any(turned):
                try:
                    run = _compiled(step)
                    if right(run):
                        return Program(run, passes)
                except Unsupported:
                    pass
                except NotBuilt as error:
                    unbuilt = str(error)
            loop = scripted(step, turned)
            if not right(loop):
                raise Untraceable("its trace gives different numbers")
            return Program(loop, passes, unbuilt)

        kernels = [x.ndim == 4 for x in carry]
        if any(kernels):
            try:
                return made(kernels)
            except Exception:  # a module that wants its images in the order of memory
                pass
        return made([False] * len(carry))


def _compiled(step: Step) -> Native:
    """Machine code for a step."""
    *fixed, x, y, root = step.fixed
    inputs = Inputs(step.carry, [x, y], [*fixed, root], step.moment)
    order = [*step.carry, *step.fixed, *step.moment]
    text, constants, *memory = written(step.traced, inputs, step.same, order)
    return Native(built(text), [step.now.index(n) for n in step.moment], constants, *memory)


def _turned(kernel: Tensor) -> Tensor:
    """With the channels last in memory, as convolutions and pooling are fastest on a CPU."""
    return kernel.clone(memory_format=torch.channels_last)


def _traced(f: Callable[..., list[Tensor]], args: tuple[Tensor, ...]) -> fx.GraphModule:
    """The operations of ``f``, none of which writes into a tensor, draws, or chooses a shape."""
    graph = recorded(f, args)
    if any(op._schema.is_mutable for op, _ in _operations(graph)):
        graph = recorded(torch.func.functionalize(graph, remove="mutations"), args)
    for op, node in _operations(graph):
        if torch.Tag.nondeterministic_seeded in op.tags:
            raise Untraceable(f"{op} draws from PyTorch's generator")
        if torch.Tag.dynamic_output_shape in op.tags and not _by_numbers(node):
            raise Untraceable(f"the shape of {op} depends on values")
        if op is torch.ops.aten._local_scalar_dense.default:
            raise Untraceable("it reads a number out of a tensor, as a branch on a value does")
        if op._schema.is_mutable:
            raise Untraceable(f"{op} changes a tensor in place")
    return graph


def _operations(graph: fx.GraphModule) -> Iterator[tuple[torch._ops.OpOverload[..., Any], fx.Node]]:
    for node in graph.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            yield node.target, node


def _by_numbers(node: fx.Node) -> bool:
    """Whether rows are chosen by their numbers and not by a mask, whose sum is the shape."""
    if node.target is not torch.ops.aten.index.Tensor:
        return False
    index = [n for n in node.args[1] if isinstance(n, fx.Node)]  # type: ignore[union-attr]
    return not any(n.meta["val"].dtype in (torch.bool, torch.uint8) for n in index)


def _near(begin: list[Tensor], wanted: list[Tensor], found: list[Tensor]) -> bool:
    """Whether every leaf is what it should be, to rounding.

    One that has no gradient but rounding errors is measured by what the others moved.
    """
    floating = [a.is_floating_point() for a in wanted]
    if not all(f or torch.equal(a, b) for a, b, f in zip(wanted, found, floating, strict=True)):
        return False

    def length(x: Tensor) -> float:
        return float(torch.linalg.vector_norm(x, dtype=torch.float64))

    every = zip(begin, wanted, found, floating, strict=True)
    leaves = [(c, a, b) for c, a, b, f in every if f]
    moved = [length(a - c) for c, a, _ in leaves]
    most = max(moved, default=0.0)
    bounds = (
        CLOSE * m + TINY * (most + length(a)) for m, (_, a, _) in zip(moved, leaves, strict=True)
    )
    return not any(length(a - b) > bound for (_, a, b), bound in zip(leaves, bounds, strict=True))
