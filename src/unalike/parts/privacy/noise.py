"""Gaussian noise in the shape of an update."""

from itertools import count

from unalike import rng, tree
from unalike.rng import Key
from unalike.tree import Tree


def normal(like: Tree, key: Key) -> Tree:
    """Independent standard normal numbers, one for every number of ``like``; safe under vmap."""
    number = count()
    return tree.map(
        lambda x: rng.normal(rng.fold_in(key.to(x.device), next(number)), *x.shape).to(x), like
    )
