"""The loss around a model: on a plane through it along two random directions.

w(a, b) = w + a d + b e,   a, b = -1, ..., 1
d and e are normal numbers, scaled filter by filter to the length of the model's own filter, and
zero for biases and norms (Li et al. 2018, section 4), so that planes of different models compare.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.rng import Key
from unalike.tree import Params


def direction(w: Params, trained: Params, key: Key) -> Params:
    """A random direction with the length of every filter; zero where nothing is trained."""
    drawn = {
        n: rng.normal(rng.fold_in(key, i), *v.shape).to(v) for i, (n, v) in enumerate(w.items())
    }
    return {n: _scaled(drawn[n], v) if n in trained else torch.zeros_like(v) for n, v in w.items()}


def _scaled(d: Tensor, w: Tensor) -> Tensor:
    if w.ndim < 2:
        return torch.zeros_like(w)
    length = w.flatten(1).norm(dim=1) / d.flatten(1).norm(dim=1).clamp(min=1e-12)
    return d * length.reshape(-1, *[1] * (w.ndim - 1))


def places(side: int) -> list[float]:
    """That many numbers from -1 to 1."""
    return [round(2 * i / (side - 1) - 1, 6) for i in range(side)]


def plane(w: Params, trained: Params, side: int, key: Key) -> Iterator[Params]:
    """The models of a square of ``side`` times ``side`` places, row by row."""
    key = key.to(next(iter(w.values())).device)
    d, e = (direction(w, trained, rng.fold_in(key, i)) for i in (2, 3))
    for a in places(side):
        row = tree.add(w, tree.scale(a, d))
        for b in places(side):
            yield tree.add(row, tree.scale(b, e))
