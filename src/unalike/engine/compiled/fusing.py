"""Local steps of many clients on a GPU, compiled: everything between two products is one kernel.

A vmapped step passes over all weights of all clients once for every term of a loss and of an
update. Its operations, the backward pass included, are recorded once and handed to PyTorch's
compiler, which merges them. Compiling takes seconds, so it is used in long runs and for calls of
one size.
"""

import logging
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from unalike import mapped, tree
from unalike.engine.compiled.merging import merge
from unalike.engine.compiled.recording import recorded
from unalike.errors import warn_once
from unalike.gradient import counted, took

Compile = Callable[[fx.GraphModule, Sequence[Tensor]], Callable[..., Sequence[Tensor]]]

MOST = 64  # programs that are kept
BUSY = 1.5  # times that a step goes over its carry, besides products, from which on it is compiled
OPTIONS = {"constant_and_index_propagation": False}  # would take our 64-bit keys for small numbers
_VIEWS = ("view", "expand", "transpose", "permute", "squeeze", "select", "slice", "alias", "detach")


def inductor(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
    """PyTorch's compiler, which takes seconds to load."""
    import torch._inductor

    logger = logging.getLogger("torch._inductor")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # a refusal is a sentence of ours
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its advice on settings that are ours to choose
            found: Callable[..., Sequence[Tensor]] = torch._inductor.compile(
                graph, list(inputs), options=OPTIONS
            )
        return found
    finally:
        logger.setLevel(before)


class Program(NamedTuple):
    """A compiled step."""

    run: Callable[..., Sequence[Tensor]]
    reads: tuple[int, ...]  # which of the tensors it was made for
    structure: Any  # of the carry
    mapped: list[bool]  # whether each leaf of it has an axis of clients
    passes: int  # gradients that one step takes


class Programs:
    """Compiled steps by their kind, for all rounds, runs and cells of a process."""

    def __init__(self, compile_: Compile = inductor) -> None:
        """Nothing is compiled yet."""
        self._compile = compile_
        self._found: OrderedDict[Hashable, Program | None] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(
        self, step: Callable[..., Any], args: "_Arguments", given: "list[Tensor | _Number]"
    ) -> Program | None:
        """The program of a step for arguments of this kind; None if it is better off without."""
        kind = step, args, tuple((x.shape, x.dtype) for x in given)
        with self._lock:
            if kind not in self._found:
                self._found[kind] = self._made(step, args, [_plain(x) for x in given])
                if len(self._found) > MOST:
                    self._found.popitem(last=False)
            self._found.move_to_end(kind)
            return self._found[kind]

    def _made(
        self, step: Callable[..., Any], args: "_Arguments", tensors: list[Tensor]
    ) -> Program | None:
        noted = list[Any]()

        def results(*tensors: Tensor) -> list[Tensor]:
            leaves, structure = tree.flatten(step(*args.tree(tensors)))
            noted[:] = structure, [mapped.inside(x) for x in leaves]
            return [mapped.raw(x) for x in leaves]

        try:
            with counted() as passes:
                graph = recorded(results, tensors, keep=False)
            graph.graph.eliminate_dead_code()
            if not (merge(graph.graph) or busy(graph.graph)):
                return None
            reads = _read(graph.graph)
            for node in graph.graph.nodes:
                node.meta.clear()
            graph.recompile()
            with mapped.outside(), torch.no_grad():
                run = self._compile(graph, [tensors[i] for i in reads])
        except Exception as error:  # whatever the compiler cannot do, or does not find
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            warn_once(
                "a local step of this model or method cannot be compiled, so it is computed "
                "operation by operation, which is slower; engine.compiled = false hides this "
                f"({why})."
            )
            return None
        structure, inside = noted
        return Program(run, reads, structure, inside, sum(passes))


def _read(graph: fx.Graph) -> tuple[int, ...]:
    """Which arguments a step reads; the others are taken out of ``graph``."""
    given = [node for node in graph.nodes if node.op == "placeholder"]
    reads = tuple(i for i, node in enumerate(given) if node.users)
    for node in given:
        if not node.users:
            graph.erase_node(node)
    return reads


def busy(graph: fx.Graph) -> bool:
    """Whether a step goes over all weights so often that merging is worth the compiler's time.

    Plain descent goes over them once, to move them, and there is nothing to merge.
    """
    made = 0
    for node in graph.nodes:
        out, what = node.meta.get("val"), str(node.target)  # such as aten.mul.Tensor
        name = what.split(".")[1] if what.startswith("aten.") else ""
        if isinstance(out, Tensor) and name and "mm" not in name:
            made += out.numel() * (not any(word in name for word in _VIEWS))
    (results,) = next(node for node in graph.nodes if node.op == "output").args
    carried = sum(node.meta["val"].numel() for node in results)
    return made >= BUSY * carried


PROGRAMS = Programs()


@dataclass(frozen=True)
class Fused:
    """A step that is compiled for calls of so many clients, and computed as it is for others.

    By the number of clients alone, so that a resumed run computes as it did before.
    """

    step: Callable[..., Any]
    clients: int
    programs: Programs = PROGRAMS

    def __call__(self, carry: Any, batch: Any, given: Any) -> Any:
        """The next carry."""
        if not mapped.once() or mapped.clients() != self.clients:
            return self.step(carry, batch, given)
        # Before the first step all clients may share a carry, and a place may be a mere number:
        # the program is to be the same for all steps.
        own = tree.map(_own, carry)
        device = next(x.device for x in tree.leaves(own) if isinstance(x, Tensor))
        placed = tree.map(lambda x: _number(x, device), batch)
        args, tensors = _Arguments.of((own, placed, given))
        program = self.programs(self.step, args, tensors)
        if program is None:
            return self.step(carry, batch, given)
        took(program.passes)
        with mapped.outside(), torch.no_grad():
            found = program.run(*(_plain(tensors[i]) for i in program.reads))
        pairs = zip(found, program.mapped, strict=True)
        return tree.build([mapped.wrap(x) if m else x for x, m in pairs], program.structure)


def _own(x: Any) -> Any:
    """A leaf that all clients share, as one for each."""
    if not isinstance(x, Tensor) or mapped.inside(x):
        return x
    return mapped.wrap(x.expand(mapped.clients(), *x.shape))


class _Arguments(NamedTuple):
    """A tree inside vmap without its tensors; can be compared and looked up."""

    structure: Any
    leaves: tuple[Any, ...]  # a value that is not a tensor, or its placeholder

    @classmethod
    def of(cls, t: Any) -> "tuple[_Arguments, list[Tensor | _Number]]":
        """(the tree without its tensors, the tensors as they are outside)."""
        leaves, structure = tree.flatten(t)
        found, rest = list[Tensor | _Number](), list[Any]()
        for x in leaves:
            if isinstance(x, Tensor):
                found.append(mapped.raw(x))
                rest.append(_Hidden(mapped.inside(x)))
            elif isinstance(x, _Number):
                found.append(x)
                rest.append(_Hidden(axis=False))
            else:
                rest.append(x)
        return cls(structure, tuple(rest)), found

    def tree(self, tensors: Sequence[Tensor]) -> Any:
        """The same tree with other tensors, inside vmap."""
        more = iter(tensors)

        def leaf(x: Any) -> Any:
            if not isinstance(x, _Hidden):
                return x
            return mapped.wrap(next(more)) if x.axis else next(more)

        return tree.build([leaf(x) for x in self.leaves], self.structure)


class _Hidden(NamedTuple):
    """In the place of a tensor."""

    axis: bool  # whether vmap hides one


@dataclass(frozen=True)
class _Number:
    """A whole number in the place of a tensor, which it becomes if a program reads it."""

    value: int
    device: torch.device
    shape = torch.Size()
    dtype = torch.int64


def _number(x: Any, device: torch.device) -> Any:
    """A whole number as one that differs from step to step; nothing else changes."""
    return _Number(x, device) if isinstance(x, int) and not isinstance(x, bool) else x


def _plain(x: Tensor | _Number) -> Tensor:
    """As a program takes it. Two arguments may be one tensor now, and another time not."""
    if isinstance(x, _Number):
        return torch.full((), x.value, dtype=x.dtype, device=x.device)
    return x.contiguous().detach()
