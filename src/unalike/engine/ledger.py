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
    links: Tensor | None,
    servers: tuple[Any, ...],
) -> Traffic:
    """The traffic of a round; a client that is its own server reaches it for free."""
    across = hops = 0
    if links is not None:
        hops = int(links.sum()) - len(links)  # nobody sends to itself
        across = hops * tree.size_bytes(servers[0].x)
    if topology.local:
        return Traffic(across=across, messages=hops)
    planned, answered = len(plan.ids), len(sent.ids)
    down = planned * tree.size_bytes(downs[0])
    up = tree.size_bytes(sent.ups) + STATISTIC * len(sent.stats) * answered
    return Traffic(down, up, across, planned + answered + hops)
