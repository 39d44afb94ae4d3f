"""How much each server's neighbours count, edge by edge.

By the method's rule, applied once to every neighbourhood; if the rule is proportional to one number
per client, all neighbourhoods are weighted at once:
a_ji = u_i / sum_h u_h                         over those that j hears, u_i of all clients of i
Metropolis:  a_ji = 1 / (1 + max(d_j, d_i)),  a_jj = 1 - sum_i a_ji            (Xiao & Boyd 2004)
which is symmetric with rows of sum one, so that the plain mean of all models stays where it is.
"""

import torch
from torch import Tensor


def by_receiver(edges: Tensor) -> dict[int, Tensor]:
    """The neighbours that each server hears."""
    receivers, count = edges[:, 0].unique_consecutive(return_counts=True)
    return dict(zip(receivers.tolist(), edges[:, 1].split(count.tolist()), strict=True))


def among(some: Tensor, n: int) -> Tensor:
    """[n] bool: whether a server is one of ``some``."""
    return torch.zeros(n, dtype=torch.bool).index_fill(0, some, True)


def proportional(edges: Tensor, u: Tensor) -> Tensor:
    """[E] what each edge (j, i) counts, from a number of every server.

    >>> edges = torch.tensor([[0, 0], [0, 1], [1, 1]])
    >>> proportional(edges, torch.tensor([1.0, 3.0]))
    tensor([0.2500, 0.7500, 1.0000])
    """
    said = u[edges[:, 1]]
    return said / torch.zeros_like(u).index_add(0, edges[:, 0], said)[edges[:, 0]]


def metropolis(edges: Tensor, n: int) -> Tensor:
    """[E] Metropolis weights of the edges among ``n`` servers, each of which also hears itself.

    >>> path = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 1], [2, 2]])
    >>> metropolis(path, 3)[:4]
    tensor([0.6667, 0.3333, 0.3333, 0.3333], dtype=torch.float64)
    """
    j, i = edges.unbind(1)
    other = i != j
    degree = j[other].bincount(minlength=n)
    weights = 1 / (1 + torch.maximum(degree[j], degree[i]).double())
    rest = torch.ones(n, dtype=torch.float64).index_add(0, j[other], -weights[other])
    return torch.where(other, weights, rest[j])


def table(edges: Tensor, weights: Tensor) -> dict[int, dict[int, float]]:
    """Server -> neighbour -> weight; receivers are in ascending order, as everywhere."""
    heard = by_receiver(edges)
    each = weights.split([len(some) for some in heard.values()])
    # From NumPy: a list of a million edges of a tensor takes seconds.
    return {
        j: dict(zip(some.numpy().tolist(), w.numpy().tolist(), strict=True))
        for (j, some), w in zip(heard.items(), each, strict=True)
    }
