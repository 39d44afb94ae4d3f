"""What clients keep before their first round, made for many of them in one call."""

import torch
from torch import Tensor
from torch.func import vmap

from unalike import channel, rng, tree
from unalike.recipe import Kept, Recipe
from unalike.rng import Key
from unalike.tree import Params, Tree

AT_ONCE_BYTES = 1 << 28  # of states; on a GPU the integers behind them take several times as much


class Beginning:
    """First states of any clients: each is a function of the client's number alone.

    A method of the user's own may begin with something that cannot be mapped. So two states are
    made in both ways, and unless they are the same bit for bit, all are made one by one.
    """

    def __init__(self, recipe: Recipe, w: Params, root: Key) -> None:
        """``root`` is the stream that clients' models are drawn from; it and ``w`` are together."""
        self.recipe, self.w, self.root = recipe, w, root
        self._mapped: bool | None = None

    def __call__(self, ids: Tensor) -> Tree:
        """The states of these clients, stacked."""
        if len(ids) == 1 or not self._can_be_mapped():
            return self._each(ids)
        size = max(tree.size_bytes(self.w), 1)
        parts = [self._all(some) for some in ids.split(max(2, AT_ONCE_BYTES // size))]
        return parts[0] if len(parts) == 1 else tree.map(lambda *xs: torch.cat(xs), *parts)

    def _one(self, key: Key) -> Kept:
        algorithm = self.recipe.algorithm
        mine = algorithm.client_init(self.w, key)
        if not self.recipe.channel:
            return Kept(mine, ())
        server = algorithm.server_init(self.w, rng.key(0))
        up = algorithm.upload_like(algorithm.broadcast(server))
        return Kept(mine, channel.begin(self.recipe.channel, tree.to(up, self.root.device)))

    def _each(self, ids: Tensor) -> Tree:
        return tree.stack([self._one(rng.fold_in(self.root, i)) for i in ids.tolist()])

    def _all(self, ids: Tensor) -> Tree:
        states = vmap(self._one)(rng.fold_in(self.root, ids))
        return tree.map(lambda x: x.contiguous(), states)  # what all share is a view of one row

    def _can_be_mapped(self) -> bool:
        if self._mapped is None:
            two = torch.arange(2)
            each = tree.leaves(self._each(two))
            try:
                both = tree.leaves(self._all(two))
            except Exception:  # whatever the code of a user does there
                both = []
            self._mapped = len(both) == len(each) and all(map(_same, each, both))
        return self._mapped


def _same(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)
