"""What one client trains on in one round: minibatches in an order that depends only on a key."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.rng import Key

C = TypeVar("C")


class Batch(NamedTuple):
    """One minibatch as a training step sees it."""

    x: Tensor
    y: Tensor
    real: Tensor  # [B] bool; False marks padding
    key: Key  # for whatever is random in this step


class Transform(Protocol):
    """What a client does to its own examples before they are used."""

    def apply(self, x: Tensor, altered: Tensor, key: Key) -> Tensor:
        """The features with the rows marked ``altered`` changed at random."""
        ...


class Repeat(Protocol):
    """A way to run the same thing again and again that is faster than a loop in Python."""

    def __call__(self, body: Callable[[], None], times: int) -> None:
        """Run ``body``, which changes fixed tensors in place, that many times."""
        ...


class Draw(NamedTuple):
    """Which rows make up the minibatches of some clients; a leading client axis on every field.

    A client's real steps come first and a step's real rows come first, so a prefix is never padded.
    """

    row: Tensor  # [n, T, B] rows of the dataset
    real: Tensor  # [n, T, B] bool
    altered: Tensor  # [n, T, B] bool: rows a transform must change


class Batches:
    """The minibatches of one client; ``fold`` is the only loop over local steps.

    Padding, masking, gathering and transforming are done here, so a method writes one ``step`` and
    runs unchanged alone or inside vmap.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        draw: Draw,
        key: Key,
        *,
        full: int,
        rows: list[int] | None = None,
        transform: Transform | None = None,
        repeat: Repeat | None = None,
    ) -> None:
        """``full`` leading steps are real for everyone; ``rows`` trims the padding of each step.

        ``repeat`` is for steps of one shape only, so it goes without ``rows``.
        """
        self.x, self.y, self.draw = x, y, draw
        self.key = rng.fold_in(key, -1)  # leaves the numbers from 0 on to a method's own draws
        self.full, self.rows, self.transform, self.repeat = full, rows, transform, repeat

    def fold(self, step: Callable[[C, Batch], C], carry: C) -> C:
        """Thread ``carry`` through ``step`` over the minibatches; padded steps change nothing."""
        if self.repeat is not None:
            return self._repeated(self.repeat, step, carry)
        for t in range(self.draw.row.shape[0]):
            batch = self.batch(t)
            new = step(carry, batch)
            # A mask costs one pass over all parameters, so steps real for everyone go without.
            carry = new if t < self.full else tree.where(batch.real.any(), new, carry)
        return carry

    def _repeated(self, repeat: Repeat, step: Callable[[C, Batch], C], carry: C) -> C:
        """The same with the carry in fixed places and the number of the step on the device."""
        t = torch.zeros((), dtype=torch.int64, device=self.x.device)

        def after(carry: C) -> C:
            batch = self.batch(t)
            return tree.where(batch.real.any(), step(carry, batch), carry)

        held = after(carry)  # the mask makes new tensors, under vmap all with a client axis

        def body() -> None:
            t.add_(1)
            tree.map(Tensor.copy_, held, after(held))

        repeat(body, self.draw.row.shape[0] - 1)
        return held

    def batch(self, t: int | Tensor) -> Batch:
        """The minibatch of local step ``t``."""
        if isinstance(t, Tensor):  # not f[t], which would wait for the device to say the number
            index, real, altered = (f.index_select(0, t[None])[0] for f in self.draw)
        else:
            index, real, altered = (f[t] for f in self.draw)
        if self.rows is not None and isinstance(
            t, int
        ):  # one client alone: cut the padding off instead of masking it
            n = self.rows[t]
            index, real, altered = index[:n], real[:n], altered[:n]
        x, key = self.x[index], rng.fold_in(self.key, t)
        if self.transform is not None:
            x = self.transform.apply(x, altered, rng.fold_in(key, 1))
        return Batch(x, self.y[index], real, key)


def work(budget: Tensor, epochs: Tensor) -> Tensor:
    """How many examples each client processes in ``epochs`` passes over ``budget`` examples."""
    whole = epochs.floor()
    total = whole.long() * budget + ((epochs - whole) * budget + 0.5).floor().long()
    return total.clamp(min=1)  # whoever takes part does something


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
    """
    n, size = len(sizes), int(sizes.max())
    total = work(budget, epochs)
    passes = int(torch.ceil(total / sizes).max())
    real = torch.arange(size, device=keys.device) < sizes[:, None]
    shuffled = []
    for p in range(passes):
        bits = rng.bits(rng.fold_in(keys, p), size)
        shuffled.append(torch.where(real, bits, torch.iinfo(torch.int64).max).argsort(1))

    q = torch.arange(int(total.max()), device=keys.device)[None]  # position in a client's sequence
    turn, place = q // sizes[:, None], q % sizes[:, None]
    local = torch.stack(shuffled, 1)[
        torch.arange(n, device=keys.device)[:, None], turn.clamp(max=passes - 1), place
    ]
    row = (starts[:, None] + local).clamp(max=len(order) - 1)

    epoch, j = q // budget[:, None], q % budget[:, None]
    step = epoch * torch.ceil(budget / batch_size).long()[:, None] + j // batch_size
    used = q < total[:, None]
    steps = int(step[used].max()) + 1
    at = (torch.arange(n, device=keys.device)[:, None] * steps + step) * batch_size + j % batch_size

    def scatter(values: Tensor) -> Tensor:
        flat = torch.zeros(n * steps * batch_size, dtype=values.dtype, device=keys.device)
        flat[at[used]] = values[used]
        return flat.reshape(n, steps, batch_size)

    changed = torch.zeros_like(used) if altered is None else altered[row]
    index, filled = scatter(order[row]), scatter(used)
    first = torch.where(filled[..., :1], index[..., :1], order[starts][:, None, None])
    return Draw(torch.where(filled, index, first), filled, scatter(changed))


def average(f: Callable[[Batch], Any], batches: Batches) -> Any:
    """The mean of ``f(batch)`` over the real rows of all minibatches, at fixed weights."""

    def step(carry: tuple[Tensor, Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        total, count = carry
        return total + (f(batch) * batch.real).sum(), count + batch.real.sum()

    zero = torch.zeros((), device=batches.x.device)
    total, count = batches.fold(step, (zero, zero))
    return total / count.clamp(min=1)
