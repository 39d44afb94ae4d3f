"""Servers hear their neighbours: each takes a weighted sum of models along the edges of a graph."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from unalike import tree
from unalike.engine import threads
from unalike.recipe import Recipe
from unalike.rng import Key
from unalike.tree import Tree

COLUMNS = 1024  # of a thousand servers, 4 MB
DENSE = 4  # from a quarter of all possible edges on, one matrix product is faster


def exchanged(
    recipe: Recipe,
    servers: Any,
    copies: Tree,
    heard: Tensor,
    weights: Tensor,
    at: Tensor,
    key: Key,
) -> tuple[Any, Tree, Tensor | None]:
    """(servers that heard their neighbours, the copies, the bytes that each said).

    The last is None if all say equally much. Those numbered ``at`` speak, whose messages may be
    compressed; ``heard`` are the edges over which they are weighed.
    """
    told = recipe.algorithm.tells(servers)
    if recipe.copies is None:
        told = spared(told, servers.x)
        means = combine(told, heard, weights)
        return recipe.algorithm.hears(servers, means), copies, None
    copies, sizes = recipe.copies.told(told, copies, at, key)
    means = combine(tree.map(torch.clone, copies), heard, weights)
    return recipe.algorithm.hears(servers, recipe.copies.moved(told, copies, means)), copies, sizes


def combine(x: Tree, edges: Tensor, weights: Tensor) -> Tree:
    """Row j of the result: the sum over the edges (j, i) of weight x_i; other rows stay.

    ``x`` is stacked over K servers, ``edges`` is [E, 2], receivers in ascending order. The result
    may take the place of ``x``: a thousand models once more would be memory that nobody needs.

    >>> x = {"w": torch.tensor([1.0, 2.0, 4.0])}
    >>> edges = torch.tensor([[0, 0], [0, 1], [2, 1]])
    >>> combine(x, edges, torch.tensor([0.5, 0.5, 1.0]))
    {'w': tensor([1.5000, 2.0000, 2.0000])}
    """
    first = tree.leaves(x)[0]
    n = len(first)
    if len(edges) * DENSE >= n * n:
        matrix = torch.zeros(n, n, dtype=torch.float64)
        matrix[edges[:, 0], edges[:, 1]] = weights.double()
        silent = torch.ones(n, dtype=torch.bool)
        silent[edges[:, 0]] = False
        matrix[silent, silent] = 1.0
        return tree.map(lambda v: torch.tensordot(matrix.to(v), v, dims=1), x)
    if first.device.type == "cpu":
        return tree.map(lambda v: _by_columns(v, edges, weights), x)
    return tree.map(lambda v: _by_rank(v, edges.to(v.device), weights.to(v)), x)


def spared(told: Tree, models: Tree) -> Tree:
    """What servers tell, with a copy of all but their models, which ``combine`` may overwrite.

    A method replaces the models by what it hears, but may need the rest as it was told.
    """
    ours = {id(v) for v in tree.leaves(models)}
    return tree.map(lambda v: v if id(v) in ours else v.clone(), told)


def _by_columns(v: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
    """Some columns of all servers at a time, which stay in the cache while all are summed."""
    receivers, degree = edges[:, 0].unique_consecutive(return_counts=True)
    first, senders = degree.cumsum(0) - degree, edges[:, 1].contiguous()
    flat, scale = v.reshape(len(v), -1), weights.to(v.dtype)

    def some(part: Tensor) -> None:
        held = part.contiguous()  # of a single part it would be the part itself
        held = held.clone() if held.data_ptr() == part.data_ptr() else held
        sums = embedding_bag(senders, held, first, mode="sum", per_sample_weights=scale)
        if len(receivers) == len(v):
            part.copy_(sums)
        else:
            part[receivers] = sums

    threads.each(some, flat.split(COLUMNS, 1))
    return flat.reshape(v.shape)


def _by_rank(v: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
    """All receivers' first neighbours, then all their second ones, and so on."""
    receivers, degree = edges[:, 0].unique_consecutive(return_counts=True)
    first = degree.cumsum(0) - degree
    out = v.clone()
    total = torch.zeros_like(v[receivers])
    for r in range(int(degree.max())):
        has = degree > r
        at = first[has] + r
        scale = weights[at].reshape(-1, *[1] * (v.ndim - 1))
        total[has] += scale * v[edges[at, 1]]
    out[receivers] = total
    return out
