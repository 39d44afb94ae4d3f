"""Loops over numbers that lie in memory at fixed strides."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike.native.pointwise import NAMES


class Unsupported(Exception):
    """Why a step is not written in C++."""


@dataclass(eq=False)
class Buffer:
    """Memory of one tensor."""

    name: str
    dtype: torch.dtype
    size: int  # numbers
    same_as: "Buffer | None" = None  # another one, into which this result is written at once
    next: str = ""  # of a carry, which the first step reads elsewhere: where it is written

    @property
    def type(self) -> str:
        """In C++."""
        return NAMES[self.dtype]


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor: some of the numbers of a buffer."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> torch.dtype:
        """Of its numbers."""
        return self.buffer.dtype

    @property
    def at(self) -> str:
        """Where it begins."""
        over = self.buffer.same_as
        name = self.buffer.name if over is None else over.next
        return f"({name} + {self.offset})" if self.offset else name

    def over(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Its strides where it is read as a tensor of that shape."""
        missing = len(shape) - len(self.shape)
        own = zip(self.shape, self.strides, strict=True)
        return (0,) * missing + tuple(0 if n == 1 else s for n, s in own)

    def lies_as(self, other: "Value") -> bool:
        """Whether a number is in the same place of both."""
        mine = self.offset, self.shape, self.over(self.shape)
        return mine == (other.offset, other.shape, other.over(other.shape))

    @property
    def in_order(self) -> bool:
        """Whether its numbers follow one another, the last axis first."""
        step = 1
        for n, s in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and s != step:
                return False
            step *= n
        return True


@dataclass(eq=False)
class Lazy:
    """Numbers that are computed where they are read."""

    text: Callable[[list[str]], str]
    operands: list[Any]  # of Value and Lazy
    shape: tuple[int, ...]
    dtype: torch.dtype

    def values(self) -> Iterator[Value]:
        """What is read."""
        for x in self.operands:
            if isinstance(x, Value):
                yield x
            else:
                yield from x.values()


class Axis(NamedTuple):
    """One loop, and how far each operand goes on in a step of it."""

    size: int
    steps: tuple[int, ...]


def size_of(shape: tuple[int, ...]) -> int:
    """How many numbers there are."""
    found = 1
    for n in shape:
        found *= n
    return found


def dense(x: Tensor) -> bool:
    """Whether the numbers of a tensor are next to one another, in any order of its axes."""
    step = 1
    for s, n in sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n != 1):
        if s != step:
            return False
        step *= n
    return True


def axes(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> list[Axis]:
    """Few loops, the first operand's neighbours innermost."""
    found = [Axis(n, tuple(s[i] for s in strides)) for i, n in enumerate(shape) if n != 1]
    found.sort(key=lambda a: -a.steps[0])
    joined = list[Axis]()
    for inner in found:
        outer = joined[-1] if joined else None
        if outer is not None and all(
            a == b * inner.size for a, b in zip(outer.steps, inner.steps, strict=True)
        ):
            joined[-1] = Axis(outer.size * inner.size, inner.steps)
        else:
            joined.append(inner)
    return joined


@dataclass
class Body:
    """What is done for one number: expressions in order, each by its name."""

    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    fresh: Iterator[int] = field(default_factory=count)

    def __call__(self, x: Value | Lazy, read: Callable[[Value], str]) -> str:
        """The name of an expression."""
        if id(x) not in self.names:
            if isinstance(x, Lazy):
                inner = [self(o, read) for o in x.operands]
            text = x.text(inner) if isinstance(x, Lazy) else read(x)
            name = f"v{next(self.fresh)}"
            self.lines.append(f"const {NAMES[x.dtype]} {name} = {text};")
            self.names[id(x)] = name
        return self.names[id(x)]


def nest(loops: list[Axis], body: list[str], before: str = "") -> list[str]:
    """The loops around a body, the innermost in vectors; names of indices are i0, i1, ..."""
    if not loops:
        return ["{", *body, "}"]
    lines = list[str]()
    for d, axis in enumerate(loops):
        if d == len(loops) - 1:
            lines.append(before or "#pragma omp simd")
        lines.append(f"for (int64_t i{d} = 0; i{d} < {axis.size}; i{d}++) {{")
    return [*lines, *body, "}" * len(loops)]


def index(loops: list[Axis], operand: int) -> str:
    """Where an operand is in its memory, within the loops."""
    steps = ((d, a.steps[operand]) for d, a in enumerate(loops))
    terms = [f"i{d}" if s == 1 else f"i{d} * {s}" for d, s in steps if s]
    return " + ".join(terms) or "0"
