"""What one client trains on in one round: minibatches in an order that depends only on a key."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from unalike import mapped, rng, tree
from unalike.draws import Draw, Extent
from unalike.gradient import counted
from unalike.rng import ClientStream, Key, Stream

C = TypeVar("C")
FEW = 256  # bytes of a label, of which those of all minibatches are taken at once


class Batch(NamedTuple):
    """One minibatch as a training step sees it."""

    x: Tensor
    y: Tensor
    real: Tensor  # [B] bool; False marks padding
    key: Key  # for whatever is random in this step
    t: int | Tensor = 0  # which of the client's minibatches this is
    epoch: int | Tensor = 0  # and in which pass over its examples


class Transform(Protocol):
    """What a client does to its own examples before they are used."""

    def apply(self, x: Tensor, altered: Tensor, key: Key) -> Tensor:
        """The features with the rows marked ``altered`` changed at random."""
        ...


class Repeat(Protocol):
    """A faster way through all steps of a fold than a loop in Python."""

    def __call__(
        self, data: "Batches", step: Any, carry: Any, given: Any, batches: int
    ) -> tuple[Any, int] | None:
        """(the carry after the last step, how many gradients a step takes); None: please loop."""
        ...


class Batches:
    """The minibatches of one client; ``fold`` is the only loop over local steps.

    Padding, masking, gathering, transforming and counting are done here, so a method writes one
    step and runs unchanged alone or inside vmap.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        draw: Draw,
        key: Key,
        extent: Extent,
        *,
        transform: Transform | None = None,
        repeat: Repeat | None = None,
        fuse: Callable[[Any], Any] | None = None,
    ) -> None:
        """``extent`` is that of all clients that are computed together.

        ``repeat`` is made either for many clients, whose steps have one shape, or for one that is
        alone, whose extent has ``rows``. ``fuse`` makes the same step of a step, but faster.
        """
        self.x, self.y, self.draw = x, y, draw
        self.root = key
        self.extent, self.transform = extent, transform
        self.repeat, self.fuse = repeat, fuse
        self.first: int | Tensor = 0  # the number of the first of these minibatches
        self.keys: Key | None = None  # those of all minibatches, where they are known
        self.labels: Tensor | None = None  # and so are their labels
        self._taken: list[Tensor] = []  # rows times gradients, of every fold

    @cached_property
    def key(self) -> Key:
        """What the keys of its minibatches are derived from."""
        return rng.fold_in(self.root, ClientStream.BATCHES)

    @cached_property
    def steps(self) -> Tensor:
        """How many minibatches this client has."""
        if self.extent.rows:
            return torch.tensor(len(self.extent.rows), device=self.x.device)
        return self.draw.real.any(1).sum()

    @property
    def gradients(self) -> Tensor:
        """Of how many samples this client has taken a gradient, each as often as it did."""
        return sum(self._taken, torch.zeros((), device=self.x.device))

    def epochs(self, a: int, b: int | None = None) -> "Batches":
        """The same client's minibatches of epochs a to b - 1, or from a on, and no others."""
        part = copy.copy(self)
        part.__dict__.pop("steps", None)
        part.keys = part.labels = None
        part.extent = self.extent.between(a, b)
        longest = part.extent.folds(1)[1]
        if self.extent.rows:
            before = int(self.extent.steps[0, :a].sum())
            part.draw = Draw(*(f[before : before + longest] for f in self.draw))
            part.first = self.first + before
            return part
        live, epoch = self.draw.real.any(1), self.draw.epoch
        first = (live & (epoch < a)).sum()
        last = self.steps if b is None else (live & (epoch < b)).sum()
        place = first + torch.arange(longest, device=epoch.device)
        some = Draw(*(f.index_select(0, place.clamp(max=len(epoch) - 1)) for f in self.draw))
        part.draw = some._replace(real=some.real & (place < last)[:, None])
        part.first = self.first + first
        return part

    def fold(
        self, step: Callable[[C, Any, Any], C], carry: C, given: Any = (), *, batches: int = 1
    ) -> C:
        """Thread ``carry`` through ``step(carry, batch, given)``; padded steps change nothing.

        A step reads nothing but its arguments and the settings of a frozen record, so that a trace
        or recording of it can be used again in the next round. With several ``batches`` it sees a
        tuple of consecutive minibatches: T of them make max(1, T // batches) steps, and a client
        that has too few for one step starts again from its first.
        """
        fewest, most = self.extent.folds(batches)
        if not most:
            return carry
        if self.fuse is not None:
            step = self.fuse(step)
        if self.repeat is not None:
            found = self.repeat(self, step, carry, given, batches)
            if found is not None:
                carry, times = found
                self._taken.append(times * self._rows(most, batches))
                return carry
        own = self.own(batches)
        if self.keys is None:  # all at once: a key is a dozen operations, whatever their number
            self.keys = self.keys_of(torch.arange(len(self.draw.row), device=self.key.device))

        data = self._spread() if mapped.once() and all(map(mapped.inside, self.draw)) else self

        def after(carry: C, s: int) -> C:
            return step(carry, data.seen(s, batches), given)

        with counted() as passes:  # the same in every step, also where Python runs only once
            new = after(carry, 0)
        self._taken.append(sum(passes) * self._rows(most, batches))
        # A mask costs one pass over all parameters, so steps real for everyone go without.
        carry = new if fewest else tree.where(own > 0, new, carry)
        for s in range(1, most):
            new = after(carry, s)
            carry = new if s < fewest else tree.where(own > s, new, carry)
        return carry

    def _spread(self) -> "Batches":
        """The same client among others, with what a step sees of all of them in one piece.

        A step would else copy together the little that it sees of each, which takes as long.
        """
        assert self.keys is not None, "all were made at once"
        other = copy.copy(self)
        other.draw = Draw(*map(mapped.by_row, self.draw))
        other.keys = mapped.by_row(self.keys)
        if self.y[:1].numel() * self.y.element_size() <= FEW:
            other.labels = mapped.by_row(self.y[self.draw.row])
        return other

    def own(self, batches: int) -> Tensor:
        """How many steps of so many minibatches this client takes."""
        return torch.maximum(self.steps // batches, self.steps.clamp(max=1))

    def few(self, batches: int) -> bool:
        """Whether some client has fewer minibatches than that."""
        return bool(self.extent.steps.sum(1).min() < batches)

    def placed(self, draw: Draw, keys: Key, first: int | Tensor, steps: Tensor) -> "Batches":
        """The same client with its numbers in other tensors, which may have room for more steps.

        ``keys`` are those of the minibatches.
        """
        other = copy.copy(self)
        other.draw, other.keys, other.first, other.labels = draw, keys, first, None
        other.__dict__["steps"] = steps  # not counted again in every step
        return other

    def keys_of(self, s: int | Tensor) -> Key:
        """The key of the minibatch at place ``s``, or of several."""
        return rng.fold_in(self.key, self.first + s)

    def seen(self, s: int | Tensor, batches: int) -> Batch | tuple[Batch, ...]:
        """What step ``s`` of a fold sees."""
        if batches == 1:
            return self.batch(s)
        places = [s * batches + j for j in range(batches)]
        if self.few(batches):
            own = len(self.extent.rows) or self.steps.clamp(min=1)
            places = [p % own for p in places]
        return tuple(map(self.batch, places))

    def _rows(self, most: int, batches: int) -> Tensor:
        """Over how many rows a client's steps go, by one minibatch of each."""
        if known := self.extent.rows:
            total = sum(known[s % len(known)] for s in range(most * batches))
            return torch.tensor(total / batches, device=self.x.device)
        rows = self.draw.real.sum(1)
        if batches == 1:
            return rows.sum()
        place = torch.arange(most * batches, device=rows.device)
        seen = rows.index_select(0, place % self.steps.clamp(min=1))
        return (seen * (place < self.own(batches) * batches)).sum() / batches

    def batch(self, s: int | Tensor) -> Batch:
        """The minibatch at place ``s``."""

        def at(f: Tensor) -> Tensor:
            if isinstance(s, Tensor):  # not f[s], which would wait for the device to say the number
                return f.index_select(0, s[None])[0]
            return f[s]

        index, real, epoch = at(self.draw.row), at(self.draw.real), at(self.draw.epoch)
        altered = None if self.transform is None else at(self.draw.altered)
        if self.extent.rows and isinstance(s, int):  # cut the padding off instead of masking it
            n = self.extent.rows[s]
            index, real, altered = index[:n], real[:n], None if altered is None else altered[:n]
        key = self.keys_of(s) if self.keys is None else at(self.keys)
        label = None if self.labels is None else at(self.labels)
        now = index, real, altered, epoch, self.first + s
        return self._made(self.x, self.y, key, *now, label=label)

    def _made(
        self, x: Tensor, y: Tensor, key: Key, *now: Any, label: Tensor | None = None
    ) -> Batch:
        index, real, altered, epoch, t = now
        x, y = mapped.rows(x, index), mapped.rows(y, index) if label is None else label
        if self.transform is not None and altered is not None:
            x = self.transform.apply(x, altered, rng.fold_in(key, Stream.TRANSFORM))
        return Batch(x, y, real, key, t, epoch)

    def by_step(self, batches: int) -> list[Tensor]:
        """What each step of a fold sees, with leading axes of clients and steps.

        For one client that is alone, or for those that vmap hides.
        """
        drawn = [mapped.raw(f) if mapped.inside(f) else f[None] for f in self.draw]
        (n, most), first = drawn[0].shape[:2], torch.as_tensor(self.first)
        t = (mapped.raw(first).reshape(-1, 1) + torch.arange(most)).expand(n, most)
        if batches == 1:
            return [*drawn, t]
        own = torch.from_numpy(self.extent.steps.sum(1)).clamp(min=1)[:, None]
        place = torch.arange(self.extent.folds(batches)[1] * batches) % own
        rows = torch.arange(n)[:, None]
        return [f[rows, place].reshape(n, -1, batches, *f.shape[2:]) for f in (*drawn, t)]

    def shown(
        self, x: Tensor, y: Tensor, root: Key, now: Sequence[Tensor], batches: int
    ) -> Batch | tuple[Batch, ...]:
        """What a step sees, from its part of what ``by_step`` gives."""
        key = rng.fold_in(root, ClientStream.BATCHES)

        def one(*fields: Tensor) -> Batch:
            return self._made(x, y, rng.fold_in(key, fields[-1]), *fields)

        if batches == 1:
            return one(*now)
        return tuple(one(*(f[j] for f in now)) for j in range(batches))


@dataclass(frozen=True)
class _Sum:
    """Adds up a number of every real row, and the rows."""

    of: Callable[[Any, Batch], Tensor]

    def __call__(self, carry: tuple[Tensor, Tensor], batch: Batch, given: Any) -> Any:
        """The sums after one more minibatch."""
        total, count = carry
        return total + (self.of(given, batch) * batch.real).sum(), count + batch.real.sum()


def average(of: Callable[[Any, Batch], Tensor], given: Any, batches: Batches) -> Tensor:
    """The mean of ``of(given, batch)`` over the real rows of all minibatches."""
    held = (x for x in tree.leaves(given) if isinstance(x, Tensor))
    types = (x.dtype for x in held if x.is_floating_point())
    zero = torch.zeros((), dtype=next(types, None), device=batches.x.device)
    total, count = batches.fold(_Sum(of), (zero, zero), given)
    return total / count.clamp(min=1)
