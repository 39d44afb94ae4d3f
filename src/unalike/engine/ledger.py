"""What was sent: bytes and messages, up, down and between servers."""

from typing import TYPE_CHECKING, Any, NamedTuple

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
) -> Traffic:
    """The traffic of a round, in which row j of ``heard`` says which servers spoke to server j.

    A client that is its own server reaches it for free, and one that shares nothing sends nothing.
    """
    across = hops = 0
    if heard is not None:
        hops = int(heard.sum() - heard.diagonal().sum())  # nobody sends to itself
        across = hops * tree.size_bytes(servers[0].x)
    planned, answered = len(plan.ids), len(sent.ids)
    down = planned * tree.size_bytes(downs[0])
    if topology.local or not down:
        return Traffic(across=across, messages=hops)
    up = tree.size_bytes(sent.ups) + STATISTIC * len(sent.stats) * answered
    return Traffic(down, up, across, planned + answered + hops)
