"""How bytes travelled in a round: over every link, and at every moment.

A round has several moments: the server's state is handed over, downloads, uploads, messages between
servers. All messages of a moment are in transit at the same time. Clients have their numbers;
server j of n clients is n + j, unless a client is the server; a cloud is -1.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unalike.parts.topology import Topology

CLOUD = -1


class Sent(NamedTuple):
    """The messages of one moment."""

    senders: Tensor
    receivers: Tensor
    bytes: Tensor


class Load(NamedTuple):
    """What was carried at one time, and in one place."""

    at_once: int = 0  # the most bytes on their way at one moment
    link: int = 0  # the most bytes between two neighbours, both directions


def sent(senders: Tensor, receivers: Tensor, size: int | Tensor) -> Sent:
    """Messages of one size each, or of their own; nobody sends to itself."""
    sizes, others = torch.as_tensor(size).expand(len(senders)), senders != receivers
    return Sent(senders[others], receivers[others], sizes[others])


def of_clients(
    topology: Topology,
    t: int,
    n: int,
    planned: Tensor,
    answered: Tensor,
    down: int | Tensor,
    up: int | Tensor,
) -> list[Sent]:
    """Downloads to the planned clients, then answers; nothing where clients are their servers."""
    if topology.local or (isinstance(down, int) and not down):
        return []
    host, home = topology.host(t, n), topology.home(n)

    def server(clients: Tensor) -> Tensor:
        return home[clients] + n if host is None else torch.full_like(clients, host)

    return [sent(server(planned), planned, down), sent(answered, server(answered), up)]


def of_servers(topology: Topology, n: int, heard: Tensor, size: int | Tensor) -> list[Sent]:
    """What servers tell one another, or a cloud and it them."""
    number = heard if topology.local else heard + n
    receivers, senders = number[:, 0], number[:, 1]
    if not topology.cloud:
        return [sent(senders, receivers, size)]
    told, hears = senders.unique(), receivers.unique()
    cloud = torch.full_like(told, CLOUD), torch.full_like(hears, CLOUD)
    return [sent(told, cloud[0], size), sent(cloud[1], hears, size)]


def handed_on(topology: Topology, t: int, n: int, size: int) -> list[Sent]:
    """The server's state on its way, if the server was another client in the round before."""
    before, now = topology.host(max(t - 1, 0), n), topology.host(t, n)
    if before is None or now is None:
        return []
    return [sent(torch.tensor([before]), torch.tensor([now]), size)]


def per_link(moments: list[Sent]) -> tuple[Tensor, Tensor]:
    """([E, 2] the links in use, the lower number first; the bytes over each)."""
    if not moments:
        return torch.zeros(0, 2, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    one, other, sizes = (
        np.concatenate([x.numpy() for x in xs]) for xs in zip(*moments, strict=True)
    )
    low, high = np.minimum(one, other) - CLOUD, np.maximum(one, other) - CLOUD
    span = int(high.max(initial=0)) + 1
    # Two numbers in one: rows would take ten times as long to sort.
    found, which = np.unique(low * span + high, return_inverse=True)
    total = np.zeros(len(found), sizes.dtype)
    np.add.at(total, which, sizes)
    links = np.stack([found // span, found % span], 1) + CLOUD
    return torch.from_numpy(links), torch.from_numpy(total)


def load(moments: list[Sent]) -> Load:
    """The busiest moment and the busiest link."""
    once = max((int(s.bytes.sum()) for s in moments), default=0)
    sizes = per_link(moments)[1]
    return Load(once, int(sizes.max()) if len(sizes) else 0)
