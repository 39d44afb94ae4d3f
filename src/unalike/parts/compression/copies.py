"""Compressed messages between nodes of a graph: public copies (Koloskova et al. 2019, CHOCO).

q_i = Q(x_i - y_i);   y_i <- y_i + q_i   here and at all neighbours        (there y is written x^)
x_i <- x_i + gamma sum_j w_ij (y_j - y_i)

y_i is what all neighbours know about x_i. What a message leaves out is part of the next difference,
so the copies are the memory. With nothing left out and gamma = 1 it is x_i <- sum_j w_ij x_j.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from unalike import channel, rng, tree
from unalike.channel import Channel
from unalike.rng import Key
from unalike.tree import Tree

# Bytes of the models in one call; what is computed on the way is a few times more.
AT_ONCE = 64 << 20


@dataclass(frozen=True)
class Copies:
    """How a node tells its neighbours what they lack, and how far it goes towards them."""

    members: Channel
    step: float = 1.0  # gamma

    def told(self, models: Tree, copies: Tree, at: Tensor, key: Key) -> tuple[Tree, Tensor]:
        """(the copies after the nodes ``at`` spoke, [K] the bytes of each message).

        ``models`` and ``copies`` are stacked over nodes. Who is silent leaves its copy as it is.
        """
        first = tree.leaves(models)[0]
        copies = tree.map(lambda y: y.clone(memory_format=torch.contiguous_format), copies)
        sizes = torch.zeros(len(first), dtype=torch.int64)
        keys = rng.fold_in(rng.fold_in(key, rng.Stream.NEIGHBOURS), at)
        each = max(1, AT_ONCE * len(first) // max(1, tree.size_bytes(models)))
        for nodes, some in zip(at.split(each), keys.split(each), strict=True):
            missing = tree.sub(tree.rows(models, nodes), tree.rows(copies, nodes))
            wires, read = vmap(self._message)(missing, some.to(first.device))
            sizes[nodes] = channel.sizes(wires, len(nodes))
            tree.map(lambda y, q, to: y.index_add_(0, to, q), copies, read, _alike(read, nodes))
        return copies, sizes

    def moved(self, models: Tree, copies: Tree, means: Tree) -> Tree:
        """The models after a step from their own copies towards the ``means`` of those heard."""

        def one(x: Tensor, y: Tensor, mean: Tensor) -> Tensor:
            return x + (self.step * (mean - y)).to(x)

        return tree.map(one, models, copies, means)

    def size(self, told: Tree) -> int:
        """The bytes of a usual message, in the form of one node's."""
        return channel.usual_bytes(self.members, told)

    def _message(self, missing: Tree, key: Key) -> tuple[Tree, Tree]:
        """(a node's message, what its neighbours read in it)."""
        memory, keys = channel.begin(self.members, missing), channel.keys(self.members, key)
        wire, _ = channel.encode(self.members, missing, memory, keys)
        return wire, channel.decode(self.members, wire)


def _alike(t: Tree, nodes: Tensor) -> Tree:
    return tree.map(lambda x: nodes.to(x.device), t)
