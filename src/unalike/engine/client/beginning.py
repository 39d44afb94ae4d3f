"""Clients' first states, made for many clients in one call."""

import torch
from torch import Tensor
from torch.func import vmap

from unalike import channel, rng, tree
from unalike.algorithm import Algorithm
from unalike.engine.client.states import States
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

    def __call__(self, ids: Tensor, own: Params | None = None) -> Tree:
        """The states of these clients, stacked; ``own`` are their models, if each has another."""
        if len(ids) == 1 or not self._can_be_mapped():
            return self._each(ids, own)
        parts = []
        for at in torch.arange(len(ids)).split(self.at_once):
            parts.append(self._all(ids[at], None if own is None else tree.rows(own, at)))
        return parts[0] if len(parts) == 1 else tree.map(lambda *xs: torch.cat(xs), *parts)

    @property
    def at_once(self) -> int:
        """How many clients' models are made together."""
        return max(2, AT_ONCE_BYTES // max(tree.size_bytes(self.w), 1))

    def _one(self, key: Key, w: Params) -> Kept:
        algorithm = self.recipe.algorithm
        mine = algorithm.client_init(w, key)
        if not self.recipe.channel:
            return Kept(mine, ())
        server = algorithm.server_init(self.w, rng.key(0))
        up = algorithm.upload_like(algorithm.broadcast(server))
        return Kept(mine, channel.begin(self.recipe.channel, tree.to(up, self.root.device)))

    def _each(self, ids: Tensor, own: Params | None = None) -> Tree:
        models = [self.w if own is None else tree.row(own, j) for j in range(len(ids))]
        keys = [rng.fold_in(self.root, i) for i in ids.tolist()]
        return tree.stack([self._one(key, w) for key, w in zip(keys, models, strict=True)])

    def _all(self, ids: Tensor, own: Params | None = None) -> Tree:
        keys, models = rng.fold_in(self.root, ids), self.w if own is None else own
        states = vmap(self._one, (0, None if own is None else 0))(keys, models)
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


class Onward:
    """First states of clients that begin with the models they were tested with in the last stage.

    Those are a function of what was shared there, which ``first`` begins with, and what was kept.
    """

    def __init__(self, before: Algorithm, first: Beginning) -> None:
        """Of a stage of the algorithm ``before``."""
        self.before, self.first = before, first

    def __call__(self, ids: Tensor, kept: Tree) -> Tree:
        """The states of these clients, stacked, from those that they had."""
        given = self.before, self.first.w, self.first.root
        own = [judged_by(*given, tree.row(kept, j)) for j in range(len(ids))]
        return self.first(ids, tree.stack(own))


def begun(states: States, first: Beginning, n: int, before: Algorithm | None) -> None:
    """The stage of all clients begins; after one of ``before`` they go on with their own models."""
    if before is None or not before.personal_models:  # all continue with the shared one
        states.begin(first)
    else:
        states.renew(first, Onward(before, first), torch.arange(n).split(first.at_once))


def judged_by(algorithm: Algorithm, w: Params, key: Key, kept: Kept) -> Params:
    """A client's model at the end of a stage, of which ``w`` has what was shared."""
    own = algorithm.personal(algorithm.broadcast(algorithm.server_init(w, key)), kept.mine)
    assert own is not None, "a client with a model of its own is judged by it"
    return own


def _same(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)
