"""How long messages between nodes and between servers take, and who waits for them.

Nodes of a graph, edge servers and clients that act as the server in turn each have a line, shared
by all messages that use it at the same moment. A round ends when everybody has finished it: nobody
begins the next one before the others, since a round's models are evaluated together.
"""

import torch
from torch import Tensor

from unalike.parts.participation.clock import Devices


def shared(pairs: Tensor, size: float, down: Tensor, up: Tensor) -> Tensor:
    """[E] seconds on the lines of messages (receiver, sender) that leave at the same moment.

    One sender with two receivers at 8 bytes a second, each of which could hear 6:

    >>> pairs, rates = torch.tensor([[1, 0], [2, 0]]), torch.tensor([8.0, 6.0, 6.0])
    >>> shared(pairs, 12, rates, rates)
    tensor([3., 3.])
    """
    receiver, sender = pairs.unbind(1)
    leaving, coming = (x.bincount(minlength=len(up)) for x in (sender, receiver))
    return size / torch.minimum(up[sender] / leaving[sender], down[receiver] / coming[receiver])


def others(edges: Tensor) -> Tensor:
    """[E] bool: whether somebody else is heard."""
    return edges[:, 0] != edges[:, 1]


def both_ways(edges: Tensor, late: Tensor, n: int) -> Tensor:
    """[E] bool: edges that are late, or whose other direction is."""
    codes, back = edges[:, 0] * n + edges[:, 1], edges[:, 1] * n + edges[:, 0]
    return late | torch.isin(back, codes[late])


def on_graph(
    ready: Tensor, edges: Tensor, size: float, lines: Devices, latency: float, shaken: Tensor
) -> Tensor:
    """[E] when each node has heard, if nodes are ``ready`` [n] with their own work."""
    arrived, away = ready[edges[:, 1]].clone(), others(edges)
    if size and away.any():
        pairs = edges[away]
        took = latency + shared(pairs, size, lines.down, lines.up)
        arrived[away] += took * shaken[pairs[:, 1]]
    return arrived


def between_servers(
    ready: Tensor, heard: Tensor, size: float, line: float, latency: float, cloud: bool
) -> float:
    """When the last server has heard; a cloud waits for all before it answers."""
    if not size:
        return float(ready.max())
    hop = latency + size / line
    if cloud:
        told = max(ready[heard[:, 1]].tolist(), default=-2 * hop)
        return max(float(ready.max()), told + 2 * hop)
    lines = torch.full_like(ready, line)
    pairs = heard[others(heard)]
    took = latency + shared(pairs, size, lines, lines)
    return float(torch.cat([ready, ready[pairs[:, 1]] + took]).max())


def by_host(
    host: int,
    ids: Tensor,
    reply: Tensor,
    work: Tensor,
    sizes: tuple[int, int],
    lines: Devices,
    latency: float,
) -> Tensor:
    """[n] how long each client of the server ``host`` takes, given its ``work``.

    ``lines`` are of all clients. The host's line carries all downloads at once, then all answers;
    its own model goes nowhere.
    """
    total, (down, up), guest = work.clone(), sizes, ids != host
    for some, size, to_host in ((guest, down, False), (guest & reply, up, True)):
        if size and some.any():
            there = torch.full_like(ids[some], host)
            pair = (there, ids[some]) if to_host else (ids[some], there)
            total[some] += latency + shared(torch.stack(pair, 1), size, lines.down, lines.up)
    return total
