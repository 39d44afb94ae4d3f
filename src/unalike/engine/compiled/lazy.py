"""Local steps that run only once it is known which results are needed.

Most clients send the difference between the model they end with and the one they received, and keep
nothing else. So where a compiled program computes the steps, a fold first returns placeholders. The
program runs only when the client half has returned, and outputs the differences themselves, their
lengths, or their sum over some clients, while each client's weights are still in a cache. A client
half that does anything else with its weights is computed as if this file did not exist.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import mapped, tree
from unalike.batches import Batches
from unalike.engine.compiled.traced import Ready, Traced
from unalike.native.program import Crew, Left, Native, Summing, Ways
from unalike.tree import Tree

_DIFFERENCE = {torch.sub, Tensor.sub, Tensor.__sub__}
_FORM = {
    Tensor.shape.__get__,  # type: ignore[attr-defined]
    Tensor.dtype.__get__,  # type: ignore[attr-defined]
    Tensor.device.__get__,
    Tensor.ndim.__get__,  # type: ignore[attr-defined]
    Tensor.is_floating_point,
}


class Wanted(Exception):
    """A number is read before the program has run."""


class Pending(Tensor):
    """A leaf of a carry after the last step, or its difference from something.

    What PyTorch reads of it without asking is not a number, so that no mistake can stay hidden.
    """

    fold: "Fold"
    leaf: int
    start: Tensor | None

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> "Tensor | Any":
        """The difference from a tensor is another placeholder; nothing else can be computed."""
        if func in _FORM:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if func in _DIFFERENCE and len(args) == 2 and not kwargs:
            end, start = args
            fits = isinstance(end, Pending) and end.start is None and type(start) is Tensor
            if fits and start.shape == end.shape and start.dtype == end.dtype:
                return end.fold.stand_in(end.leaf, start)
        raise Wanted(str(func))


class Fold(NamedTuple):
    """All steps of some clients, to be computed."""

    ready: Ready

    def stand_in(self, leaf: int, start: Tensor | None = None) -> Pending:
        """For a leaf of the carry of one client, inside vmap, or its difference from ``start``."""
        like = self.ready.carry[leaf]
        found: Pending = _nothing(like.dtype).expand(like.shape[1:]).as_subclass(Pending)
        found.fold, found.leaf, found.start = self, leaf, start
        return found


@cache
def _nothing(dtype: torch.dtype) -> Tensor:
    """NaN, as a value that nobody computes."""
    with mapped.outside():
        return torch.full((), torch.nan).to(dtype)


class Part(NamedTuple):
    """What some clients of a call send: each by itself, or the sums over groups of them."""

    clients: slice
    wire: Tree
    totals: list[Tree]


class Lazy:
    """The folds of one call of many clients."""

    def __init__(
        self, traced: Traced, summing: Summing | None = None, crew: Crew | None = None
    ) -> None:
        """What is sent may be summed; a crew computes several clients at the same time."""
        self.traced, self.summing, self.crew = traced, summing, crew
        self.begun = False  # only the first fold waits: others measure something
        self.waited = False  # whether it did
        self.lengths: Tensor | None = None  # of what clients send, where it is differences
        self.parts: list[Part] = []  # where it is summed

    def __call__(
        self, data: Batches, step: Callable[..., Any], carry: Any, given: Any, batches: int
    ) -> tuple[Any, int] | None:
        """(placeholders for the carry after all steps, how many gradients one takes)."""
        if any(isinstance(x, Pending) for x in tree.leaves((carry, given))):
            raise Wanted("a second fold")
        if self.begun or not mapped.once():
            return self.traced(data, step, carry, given, batches)
        ready, self.begun = self.traced.ready(data, step, carry, given, batches), True
        if ready.program is None or not isinstance(ready.program.run, Native):
            return self.traced(data, step, carry, given, batches)
        self.waited = True
        found = [Fold(ready).stand_in(i) for i in range(len(ready.carry))]
        return ready.joined(found), ready.program.passes

    def answers(self, wire: Tree, *more: Tree) -> tuple[Tree, ...]:
        """The same with numbers, inside vmap; nothing is sent where it is summed."""
        sent, form = tree.flatten(wire)
        rest, forms = tree.flatten(more)
        standing = [x for x in (*sent, *rest) if isinstance(x, Pending)]
        if not standing:
            return wire, *more
        fold, ways = standing[0].fold, _ways(standing)
        plain = all(isinstance(x, Pending) and x.start is not None for x in sent)
        apart = any(isinstance(x, Pending) and x.start is not None for x in rest)
        ready, run = fold.ready, fold.ready.native.left
        summing = self.summing if plain and not apart else None
        with mapped.outside():
            left = run(*ready.given, ways, summing, self.crew)
            if plain and sent:
                self.lengths = left.lengths
            if summing is not None:
                self.parts = list(self._sums(left, summing, sent, form, ways))
                sent, form = tree.flatten(())

        def number(x: Any) -> Any:
            if not isinstance(x, Pending):
                return x
            found = (left.carry if x.start is None else left.ways)[x.leaf]
            assert found is not None, "all that is wanted was asked for"
            return mapped.wrap(found)

        return tree.unflatten(map(number, sent), form), *tree.unflatten(map(number, rest), forms)

    def _sums(
        self, left: Left, summing: Summing, sent: list[Pending], form: Any, ways: list[Ways]
    ) -> Iterator[Part]:
        """Of each piece; where an upload was too long for one, all of its uploads."""
        ready = sent[0].fold.ready
        summed, start = list[Tree](), 0
        for k, piece in enumerate(summing.pieces):
            if bool((left.lengths[piece] <= summing.longest).all()):
                summed.append(tree.unflatten([left.ways[x.leaf][k] for x in sent], form))  # type: ignore[index]
                continue
            if summed:
                yield Part(slice(start, piece.start), (), summed)
            some = [w if w.start is None else w._replace(start=w.start[piece]) for w in ways]
            again = ready.native.left(*ready.of(piece), some, None, self.crew)
            left.lengths[piece] = again.lengths
            for held, new in zip(left.carry, again.carry, strict=True):
                if held is not None and new is not None:
                    held[piece] = new
            yield Part(piece, tree.unflatten([again.ways[x.leaf] for x in sent], form), [])
            summed, start = [], piece.stop
        if summed:
            yield Part(slice(start, summing.pieces[-1].stop), (), summed)


def _ways(standing: list[Pending]) -> list[Ways]:
    """What is needed of every leaf of a carry."""
    n, ready = len(standing[0].fold.ready.times), standing[0].fold.ready
    ways = [Ways(itself=False) for _ in ready.carry]
    for x in standing:
        if x.start is None:
            ways[x.leaf] = ways[x.leaf]._replace(itself=True)
            continue
        if ways[x.leaf].start is not None:
            raise Wanted("two differences of one leaf")
        with mapped.outside():
            start = x.start
            whole = mapped.raw(start) if mapped.inside(start) else start.expand(n, *start.shape)
            ways[x.leaf] = ways[x.leaf]._replace(start=_in_order(whole))
    return ways


def _in_order(x: Tensor) -> Tensor:
    """With every client's numbers as they lie in a carry."""
    return x if x[0].is_contiguous() else x.contiguous()
