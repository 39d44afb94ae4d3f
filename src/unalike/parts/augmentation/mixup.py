"""Mixup with means of others' examples (Zhang et al. 2018; Yoon et al. 2021, MAFL).

pool: means (a, b) of features and one-hot labels over parts of every client's examples
naive    l(f((1 - s) x + s a), (1 - s) y + s b)
Taylor   (1 - s) l(f(u), y) + s l(f(u), b) + s (1 - s) <grad_u l(f(u), y), a>,   u = (1 - s) x

The second is the first to first order in s a, less the term of order s^2. One (a, b) is drawn for
every minibatch.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from unalike import rng
from unalike.batches import Batch, Batches
from unalike.gradient import slope
from unalike.rng import Key, Stream
from unalike.tasks import Task
from unalike.tree import Params

How = Literal["taylor", "naive"]


@dataclass(frozen=True)
class Mixed:
    """The task's loss on examples that are mixed with means; given is the pool of them."""

    task: Task
    share: float
    how: How = "taylor"

    @property
    def passes(self) -> int:
        """Once, or for both labels and for the derivative."""
        return 1 if self.how == "naive" else 3

    def __call__(
        self, theta: Params, buffers: Params, batch: Batch, given: Params
    ) -> tuple[Tensor, Params]:
        """On the minibatch."""
        w, s = {**theta, **buffers}, self.share
        a, b = drawn(given, batch.key)
        soft = (1 - s) * _shares(batch.y, b) + s * b
        shrunk = (1 - s) * batch.x
        if self.how == "naive":
            return self.task.loss(w, batch._replace(x=shrunk + s * a, y=soft))
        loss, after = self.task.loss(w, batch._replace(x=shrunk, y=soft))
        along = slope(lambda x: self.task.loss(w, batch._replace(x=x))[0], shrunk, a)
        return loss + s * (1 - s) * along, after


def drawn(pool: Params, key: Key) -> tuple[Tensor, Tensor]:
    """One of the pool's means, each as likely; empty ones come last and are never drawn."""
    u = rng.uniform(rng.fold_in(key, Stream.METHOD), 1)
    at = (u * pool["filled"]).long()
    return pool["x"].index_select(0, at)[0], pool["y"].index_select(0, at)[0]


def _shares(y: Tensor, like: Tensor) -> Tensor:
    """Labels as shares of classes; ``F.one_hot`` looks at the numbers, which vmap forbids."""
    return (y[:, None] == torch.arange(like.shape[-1], device=y.device)).to(like)


class _Sums:
    """Adds up features and labels part by part; given is how many examples there are."""

    def __call__(self, carry: tuple[Tensor, ...], batch: Batch, given: Tensor) -> Any:
        """The sums of each part after one more minibatch."""
        x, y, count, seen = carry
        parts = len(count)
        part = (seen + batch.real.cumsum(0) - 1) * parts // given
        member = (part[:, None] == torch.arange(parts, device=x.device)) & batch.real[:, None]
        member = member.to(x).T
        x = x + (member @ batch.x.flatten(1)).reshape(x.shape)
        y = y + member @ _shares(batch.y, y)
        return x, y, count + member.sum(1), seen + batch.real.sum()


SUMS = _Sums()


def means(data: Batches, classes: int, parts: int) -> tuple[Tensor, Tensor, Tensor]:
    """(mean features, mean one-hot labels, numbers of examples) of parts of a client's examples.

    Parts are as equal as can be, in the random order of the client's first epoch.
    """
    one, first = data.x[0], data.epochs(0, 1)
    n = first.draw.real.sum()
    shapes = (parts, *one.shape), (parts, classes), (parts,)
    blank = (*(one.new_zeros(shape) for shape in shapes), torch.zeros_like(n))
    x, y, count, _ = first.fold(SUMS, blank, n.clamp(min=1))
    some = count.clamp(min=1)
    return x / some.reshape(-1, *[1] * one.ndim), y / some[:, None], count
