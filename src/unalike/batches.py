"""What one client trains on in one round: minibatches in an order that depends only on a key."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from unalike import mapped, rng, tree
from unalike.gradient import counted
from unalike.rng import ClientStream, Key, Stream

C = TypeVar("C")


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
    """A way through all steps of a fold that is faster than a loop in Python."""

    def __call__(
        self, data: "Batches", step: Any, carry: Any, given: Any, batches: int
    ) -> tuple[Any, int] | None:
        """(the carry after the last step, how many gradients a step takes); None: please loop."""
        ...


class Draw(NamedTuple):
    """Which rows make up the minibatches of some clients; a leading client axis on every field.

    A client's real steps come first and a step's real rows come first, so a prefix is never padded.
    """

    row: Tensor  # [n, T, B] rows of the dataset
    real: Tensor  # [n, T, B] bool
    altered: Tensor  # [n, T, B] bool: rows a transform must change
    epoch: Tensor  # [n, T] the pass that a step belongs to


@dataclass(frozen=True, eq=False)
class Extent:
    """How much some clients do, known on the host: what nobody does need not be computed."""

    steps: np.ndarray  # [n, E] of each client in each epoch
    rows: tuple[int, ...] = ()  # in every step of one client alone, whose padding is cut off

    @classmethod
    def of(cls, drawn: Draw) -> Self:
        """The extent of the clients that these minibatches are for."""
        total = drawn.real.any(2).sum(1, keepdim=True).cpu().numpy()
        whole = (drawn.epoch == 0).sum(1, keepdim=True).cpu().numpy()  # steps of an epoch
        return cls._cut(total, whole)

    @classmethod
    def ahead(cls, budget: Tensor, epochs: Tensor, batch_size: int) -> Self:
        """The same before anything is drawn, so that nobody waits for a device."""
        plan = _Plan.of(budget, epochs, batch_size)
        own = plan.own[:, None].numpy()
        return cls._cut(own, plan.each[:, None].clamp(max=plan.steps).numpy())

    @classmethod
    def _cut(cls, total: np.ndarray, whole: np.ndarray) -> Self:
        before = np.arange(np.ceil(total / whole).max(), dtype=np.int64) * whole
        return cls((total - before).clip(0, whole))

    def between(self, a: int, b: int | None) -> Self:
        """The same clients in epochs a to b - 1 only."""
        chosen = np.zeros_like(self.steps)
        chosen[:, a:b] = self.steps[:, a:b]
        before, count = self.steps[0, :a].sum(), chosen[0].sum()
        return type(self)(chosen, self.rows[before : before + count])

    def each(self, batches: int) -> np.ndarray:
        """[n] how many steps of so many minibatches every client takes."""
        total = self.steps.sum(1)
        found: np.ndarray = np.maximum(total // batches, total.clip(max=1))
        return found

    def folds(self, batches: int) -> tuple[int, int]:
        """(the fewest, the most) steps of so many minibatches that a client takes."""
        each = self.each(batches)
        return int(each.min()), int(each.max())


def alone(drawn: Draw) -> list[tuple[Draw, Extent]]:
    """The minibatches of each of several clients, without the padding that others need.

    A width is that of all, or a power of two: clients of many sizes have few shapes of minibatches.
    """
    steps, rows = Extent.of(drawn).steps, drawn.real.sum(2).cpu().numpy()
    found = []
    for i, count in enumerate(steps.sum(1)):
        own = tuple(rows[i, :count].tolist())
        cut = narrowed(Draw(*(f[i, :count] for f in drawn)), max(own, default=1))
        found.append((cut, Extent(steps[i : i + 1], own)))
    return found


def narrowed(drawn: Draw, rows: int) -> Draw:
    """The same minibatches, of which none has more rows than that, in one of few widths."""
    width = 1 << (rows - 1).bit_length()
    row, real, altered = (f[..., :width] for f in drawn[:3])
    return Draw(row, real, altered, drawn.epoch)


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
    ) -> None:
        """``extent`` is that of all clients that are computed together.

        ``repeat`` is made either for many clients, whose steps have one shape, or for one that is
        alone, whose extent has ``rows``.
        """
        self.x, self.y, self.draw = x, y, draw
        self.root = key
        self.extent, self.transform, self.repeat = extent, transform, repeat
        self.first: int | Tensor = 0  # the number of the first of these minibatches
        self.keys: Key | None = None  # those of all minibatches, where they are known
        self._taken: list[Tensor] = []  # rows times gradients, of every fold

    @cached_property
    def key(self) -> Key:
        """What the keys of its minibatches are made of."""
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
        part.keys = None
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

        A step reads nothing but its arguments and the settings of a frozen record, so that what was
        traced or recorded of it in one round serves in the next. With several ``batches`` it sees
        a tuple of as many in a row: T of them make max(1, T // batches) steps, and a client that
        has too few for one begins again with its first.
        """
        fewest, most = self.extent.folds(batches)
        if not most:
            return carry
        if self.repeat is not None:
            found = self.repeat(self, step, carry, given, batches)
            if found is not None:
                carry, times = found
                self._taken.append(times * self._rows(most, batches))
                return carry
        own = self.own(batches)
        if self.keys is None:  # all at once: a key is a dozen operations, whatever their number
            self.keys = self.keys_of(torch.arange(len(self.draw.row), device=self.key.device))

        def after(carry: C, s: int) -> C:
            return step(carry, self.seen(s, batches), given)

        with counted() as passes:  # the same in every step, also where Python runs only once
            new = after(carry, 0)
        self._taken.append(sum(passes) * self._rows(most, batches))
        # A mask costs one pass over all parameters, so steps real for everyone go without.
        carry = new if fewest else tree.where(own > 0, new, carry)
        for s in range(1, most):
            new = after(carry, s)
            carry = new if s < fewest else tree.where(own > s, new, carry)
        return carry

    def own(self, batches: int) -> Tensor:
        """How many steps of so many minibatches this client takes."""
        return torch.maximum(self.steps // batches, self.steps.clamp(max=1))

    def few(self, batches: int) -> bool:
        """Whether somebody has fewer minibatches than that."""
        return bool(self.extent.steps.sum(1).min() < batches)

    def placed(self, draw: Draw, keys: Key, first: int | Tensor, steps: Tensor) -> "Batches":
        """The same client with its numbers in other tensors, which may have room for more steps.

        ``keys`` are those of the minibatches.
        """
        other = copy.copy(self)
        other.draw, other.keys, other.first = draw, keys, first
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
        return self._made(self.x, self.y, key, index, real, altered, epoch, self.first + s)

    def _made(self, x: Tensor, y: Tensor, key: Key, *now: Any) -> Batch:
        index, real, altered, epoch, t = now
        x, y = x[index], y[index]
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


def work(budget: Tensor, epochs: Tensor) -> Tensor:
    """How many examples each client processes in ``epochs`` passes over ``budget`` examples."""
    whole = epochs.floor()
    total = whole.long() * budget + ((epochs - whole) * budget + 0.5).floor().long()
    return total.clamp(min=1)  # whoever takes part does something


class _Plan(NamedTuple):
    """How much clients draw, on the host."""

    total: Tensor  # [n] examples
    each: Tensor  # [n] steps of an epoch
    own: Tensor  # [n] steps

    @classmethod
    def of(cls, budget: Tensor, epochs: Tensor, batch_size: int) -> Self:
        """By the same arguments as ``draw``."""
        budget = budget.cpu()
        total = work(budget, epochs.cpu())
        each = torch.ceil(budget / batch_size).long()
        last = total - 1
        return cls(total, each, last // budget * each + last % budget // batch_size + 1)

    @property
    def steps(self) -> int:
        """The most that anybody takes."""
        return int(self.own.max())


def draw(
    order: Tensor,
    sizes: Tensor,
    starts: Tensor,
    *,
    budget: Tensor,
    epochs: Tensor,
    batch_size: int,
    keys: Key,
    altered: Tensor | None = None,
) -> Draw:
    """Shuffled minibatches for several clients at once, each in an order set by its own key.

    Client i owns ``order[starts[i] : starts[i] + sizes[i]]``. One epoch is ``budget[i]`` examples
    (its original size, also when a transform made the list longer); a fraction of an epoch is that
    share of one more shuffled pass, rounded to whole examples. Each epoch ends in a short batch.
    A step is padded with its own first row, so that no client ever touches another's examples.
    Numbers of clients may be on the host: then nothing waits for the device of the keys.
    """
    plan, device = _Plan.of(budget, epochs, batch_size), keys.device
    size, passes = int(sizes.max()), int(torch.ceil(plan.total / sizes.cpu()).max())
    sizes, starts, budget, total, each = (
        v.to(device)[:, None, None] for v in (sizes, starts, budget, plan.total, plan.each)
    )
    real = torch.arange(size, device=device) < sizes[:, 0]
    shuffled = []
    for p in range(passes):
        bits = rng.bits(rng.fold_in(keys, p), size)
        shuffled.append(torch.where(real, bits, torch.iinfo(torch.int64).max).argsort(1))
    local = torch.cat(shuffled, 1)

    step = torch.arange(plan.steps, device=device)[:, None]
    epoch = step // each
    j = step % each * batch_size + torch.arange(batch_size, device=device)  # place in the epoch
    q = epoch * budget + j  # and in a client's whole sequence
    filled = (j < budget) & (q < total)
    some = filled[..., :1]
    q = torch.where(filled, q, torch.where(some, q[..., :1], 0))
    at = q // sizes * size + q % sizes
    row = starts + torch.where(some, local.gather(1, at.flatten(1)).view(q.shape), 0)
    changed = torch.zeros_like(filled) if altered is None else altered[row] & filled
    return Draw(order[row], filled, changed, epoch[..., 0])


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
