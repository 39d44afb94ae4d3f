"""What was sent: bytes and messages, up, down and between servers."""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.parts.schedule import Plan
from unalike.parts.topology import Topology

if TYPE_CHECKING:
    from unalike.engine.loop import Replies

STATISTIC = 4  # bytes of one reported number


class Traffic(NamedTuple):
    """Bytes and messages of one round."""

    down: int = 0
    up: int = 0
    across: int = 0  # between servers, or between clients where there is no server
    messages: int = 0

    @property
    def total(self) -> int:
        """All bytes."""
        return self.down + self.up + self.across


def traffic(
    topology: Topology,
    plan: Plan,
    downs: list[Any],
    sent: "Replies",
    heard: Tensor | None,
    servers: tuple[Any, ...],
    hosts: tuple[int | None, int | None] = (None, None),
    everybody: int | None = None,
) -> Traffic:
    """The traffic of a round, in which row j of ``heard`` says which servers spoke to server j.

    A client that is its own server reaches it for free, and one that shares nothing sends nothing.
    ``hosts`` are the clients that were the server before and are it now: a new one is handed
    everything that the server knows. What a download has as ``news`` goes to ``everybody``, not to
    the planned clients alone; what it has as ``held`` they were sent in an earlier round.
    """
    across = hops = 0
    if heard is not None:
        hops = int(heard.sum() - heard.diagonal().sum())  # nobody sends to itself
        across = hops * tree.size_bytes(servers[0].x)
    before, host = hosts
    if before != host:
        across, hops = across + tree.size_bytes(servers), hops + 1
    planned, answered = (
        int((ids != host).sum()) if host is not None else len(ids) for ids in (plan.ids, sent.ids)
    )
    news, held = (tree.size_bytes(getattr(downs[0], name, ())) for name in ("news", "held"))
    told = planned if everybody is None or not news else everybody
    down = planned * (tree.size_bytes(downs[0]) - news - held) + told * news
    if topology.local or not tree.size_bytes(downs[0]):
        return Traffic(across=across, messages=hops)
    each = tree.size_bytes(sent.ups) // max(len(sent.ids), 1) + STATISTIC * len(sent.stats)
    return Traffic(down, each * answered, across, told + answered + hops)


def survey_traffic(
    topology: Topology, n: int, answers: dict[str, Tensor], payload: int, links: Tensor | None
) -> Traffic:
    """What the survey costs: questions with their ``payload`` down, answers up and across.

    Every server needs the answers of all clients it will ever mix: its own, those of its
    neighbours in ``links``, and where clients take turns as the server, everybody's.
    """
    each = tree.size_bytes(answers) // n
    across = hops = 0
    if links is not None:
        clients = torch.bincount(topology.home(n), minlength=len(links))
        others = links & ~torch.eye(len(links), dtype=torch.bool)
        across, hops = int((others * clients).sum()) * each, int(others.sum())
    if topology.host(0, n) is not None:
        across, hops = n * (n - 1) * each, n * (n - 1)
    if topology.local or topology.host(0, n) is not None:
        # There is no server: the payload goes from client to client until all have it.
        return Traffic(0, 0, across + (n - 1) * payload, hops + (n - 1) * bool(payload))
    return Traffic(n * payload, n * each, across, n * (1 + bool(payload)) + hops)
