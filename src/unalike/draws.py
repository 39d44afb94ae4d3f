"""Which rows make up the minibatches of a round: for many clients at once, by their own keys."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from unalike import rng
from unalike.rng import Key


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
    """How much some clients do, known on the host, so that only necessary steps are computed."""

    steps: np.ndarray  # [n, E] of each client in each epoch
    rows: tuple[int, ...] = ()  # in every step of one client alone, whose padding is cut off

    @classmethod
    def of(cls, drawn: Draw) -> Self:
        """The extent of the clients that these minibatches are for."""
        total = drawn.real.any(2).sum(1, keepdim=True).cpu().numpy()
        whole = (drawn.epoch == 0).sum(1, keepdim=True).cpu().numpy()  # steps of an epoch
        return cls(_cut(total, whole))

    @classmethod
    def ahead(cls, budget: Tensor, epochs: Tensor, batch_size: int) -> Self:
        """The same before anything is drawn, so that nobody waits for a device."""
        given = (x.cpu().numpy() for x in (budget, epochs))
        return cls(_ahead(*((x.tobytes(), x.dtype.str) for x in given), batch_size))

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


def work(budget: Tensor, epochs: Tensor) -> Tensor:
    """How many examples each client processes in ``epochs`` passes over ``budget`` examples."""
    whole = epochs.floor()
    total = whole.long() * budget + ((epochs - whole) * budget + 0.5).floor().long()
    return total.clamp(min=1)  # every client that takes part does something


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
        """The largest number that any client takes."""
        return int(self.own.max())


def _cut(total: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """[n, E] so many steps in all, of which an epoch has so many."""
    before = np.arange(np.ceil(total / whole).max(), dtype=np.int64) * whole
    found: np.ndarray = (total - before).clip(0, whole)
    return found


@lru_cache(maxsize=16)
def _ahead(budget: tuple[bytes, str], epochs: tuple[bytes, str], batch_size: int) -> np.ndarray:
    """[n, E] what clients will do; remembered, because they often do as much as before."""
    sizes, passes = (torch.from_numpy(np.frombuffer(*x).copy()) for x in (budget, epochs))
    plan = _Plan.of(sizes, passes, batch_size)
    own, each = plan.own[:, None].numpy(), plan.each[:, None].clamp(max=plan.steps).numpy()
    found = _cut(own, each)
    found.flags.writeable = False
    return found


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
