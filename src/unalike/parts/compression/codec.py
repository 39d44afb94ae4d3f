"""Compression of an upload, with a memory of what it left out (Stich et al. 2018, Alg. 1).

v = u + e;   the wire is C(v);   e <- v - C(v)                     (error feedback; else v = u)

C chooses entries of all weights together, as one vector (``select.py``), and writes their numbers
in few bits (``values.py``). A further field of an upload, such as SCAFFOLD's change of c_i, is a
vector of its own; without a choice every leaf is one, with its own scale. Running statistics and
numbers that are not weights travel as they are: late changes could make a variance negative.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.channel import Channel
from unalike.parts.compression.select import Select
from unalike.parts.compression.values import Values
from unalike.rng import Key
from unalike.tree import Tree

Leaves = dict[str, Tensor]  # by their path


class Some(NamedTuple):
    """Entries of a vector."""

    positions: Any  # where they belong; () if all are here
    numbers: Any


class Wire(NamedTuple):
    """What travels of an upload."""

    form: Tree  # the upload's structure and shapes, which both ends know: not a single element
    whole: Leaves  # leaves as they are
    numbers: dict[str, Some]


@dataclass(frozen=True)
class Compressed:
    """The codec of a compression, for uploads whose leaves called ``whole`` are left alone."""

    select: Select | None
    values: Values | None
    feedback: bool
    whole: tuple[str, ...] = ()

    def init(self, up: Tree) -> Leaves:
        """Nothing was left out yet."""
        return tree.zeros(self._parted(up)[0]) if self.feedback else {}

    def encode(self, up: Tree, memory: Leaves, key: Key) -> tuple[Tree, Leaves]:
        """The upload and what is owed, compressed; what is still owed."""
        dense, whole = self._parted(up)
        owed = tree.add(dense, memory) if self.feedback else dense
        form = tree.map(lambda x: x.new_empty((0, *x.shape)), up)
        wire = Wire(form, whole, self._written(owed, key))
        if not self.feedback:
            return wire, memory
        return wire, tree.sub(owed, self._read(wire, dense))

    def decode(self, wire: Wire) -> Tree:
        """Zeros where nothing came."""
        like = tree.map(lambda x: x.new_zeros(x.shape[1:]), wire.form)
        dense, _ = self._parted(like)
        return tree.restore({**wire.whole, **self._read(wire, dense)}, wire.form)

    def _parted(self, up: Tree) -> tuple[Leaves, Leaves]:
        """(leaves to compress, the others)."""
        named = tree.named(up)
        names = tuple(f"['{name}']" for name in self.whole)
        some = {k: x for k, x in named.items() if x.is_floating_point() and x.numel()}
        dense = {k: x for k, x in some.items() if not k.endswith(names)}
        return dense, {k: x for k, x in named.items() if k not in dense}

    def _written(self, dense: Leaves, key: Key) -> dict[str, Any]:
        """Name of a vector -> it as it travels."""
        parts = self._vectors(dense)
        return {
            name: self._vector(part, rng.fold_in(key, i)) for i, (name, part) in enumerate(parts)
        }

    def _vectors(self, dense: Leaves) -> list[tuple[str, Leaves]]:
        """What is compressed by itself: the fields of an upload, or single leaves."""
        if self.select is None:
            return [(name, {name: x}) for name, x in dense.items()]
        fields: dict[str, Leaves] = {}
        for name, x in dense.items():
            fields.setdefault(name.partition("[")[0], {})[name] = x
        return list(fields.items())

    def _vector(self, part: Leaves, key: Key) -> Some:
        v = torch.cat([x.reshape(-1) for x in part.values()])
        sent: Any = ()
        if self._chooses(len(v)):
            assert self.select is not None
            at, sent = self.select.pick(v, key)
            gain = 1.0 if self.feedback else self.select.gain(len(v))
            v = gain * v.gather(0, at)
        return Some(sent, v if self.values is None else self.values.write(v, rng.fold_in(key, 1)))

    def _chooses(self, n: int) -> bool:
        return self.select is not None and self.select.count(n) < n

    def _read(self, wire: Wire, like: Leaves) -> Leaves:
        """The compressed leaves, in the shapes of ``like``."""
        out: Leaves = {}
        for name, part in self._vectors(like):
            sizes = [x.numel() for x in part.values()]
            pieces = self._entries(wire.numbers[name], sum(sizes)).split(sizes)
            out |= {
                k: v.reshape(part[k].shape).to(part[k]) for k, v in zip(part, pieces, strict=True)
            }
        return out

    def _entries(self, some: Some, n: int) -> Tensor:
        """All ``n`` entries of a vector, zero where nothing came."""
        chooses = self._chooses(n)
        k = self.select.count(n) if self.select is not None and chooses else n
        numbers = some.numbers if self.values is None else self.values.read(some.numbers, k)
        if self.select is None or not chooses:
            return numbers
        at = self.select.read(some.positions, n)
        return torch.zeros(n, dtype=numbers.dtype, device=numbers.device).scatter(0, at, numbers)


@dataclass(frozen=True)
class Compression:
    """What the methods of a draft say about compression, in any order."""

    select: Select | None = None
    values: Values | None = None
    feedback: bool = False

    @property
    def forgets(self) -> bool:
        """Whether what it leaves out is lost."""
        return not self.feedback and (self.select is not None or self.values is not None)

    def choosing(self, select: Select, feedback: bool) -> "Compression":
        """Only some entries travel."""
        return replace(self, select=select, feedback=self.feedback or feedback)

    def writing(self, values: Values, feedback: bool) -> "Compression":
        """Numbers are written in few bits."""
        return replace(self, values=values, feedback=self.feedback or feedback)

    def codecs(self, whole: tuple[str, ...]) -> Channel:
        """The members of the resulting channel."""
        if self.select is None and self.values is None:
            return ()
        return (Compressed(self.select, self.values, self.feedback, whole),)


NONE = Compression()
