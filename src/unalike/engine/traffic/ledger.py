"""What was sent: bytes and messages, up, down and between servers."""

from typing import NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithm import Algorithm
from unalike.parts.topology import Topology
from unalike.tree import Tree

STATISTIC = 4  # bytes of one reported number


class Traffic(NamedTuple):
    """Bytes and messages of one round."""

    down: int = 0
    up: int = 0
    across: int = 0  # between servers, or between clients where there is no server
    messages: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":  # type: ignore[override]
        """Both together."""
        return Traffic(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def total(self) -> int:
        """All bytes."""
        return self.down + self.up + self.across


def traffic(
    topology: Topology,
    host: int | None,
    planned: Tensor,
    answered: Tensor,
    down: int | Tensor,
    up: int | Tensor,
    statistics: int,
) -> Traffic:
    """Downloads to the planned clients and answers from those that sent one.

    ``down`` and ``up`` are the bytes of one message without its statistics, or of each. A
    client that is its own server reaches it for free, as does the ``host`` of a round; one that
    shares nothing sends nothing.
    """
    if topology.local or (isinstance(down, int) and not down):
        return Traffic()
    to, back = (
        torch.ones_like(ids, dtype=torch.bool) if host is None else ids != host
        for ids in (planned, answered)
    )
    each = torch.as_tensor(up).expand(len(answered)) + STATISTIC * statistics
    sent = int(torch.as_tensor(down).expand(len(planned))[to].sum()), int(each[back].sum())
    return Traffic(*sent, 0, int(to.sum()) + int(back.sum()))


def parameters(
    algorithm: Algorithm, downs: Tree, reached: int, clients: int, answers: int
) -> dict[str, float]:
    """Numbers of models that were sent, by two rules, as if nothing were encoded.

    ``parameters`` counts a download to every client that was ``reached``, ``parameters_all`` one to
    all ``clients``, as in published tables that send every new model to everybody. Both count the
    uploads that arrived. ``downs`` is stacked over the servers. Messages between servers are added
    by ``between``.
    """
    if not reached:
        return {"parameters": 0, "parameters_all": 0}
    down = tree.row(downs, 0)
    up = algorithm.upload_like(down)
    one, other = (sum(x.numel() for x in tree.leaves(t)) for t in (down, up))
    return {
        "parameters": reached * one + answers * other,
        "parameters_all": clients * one + answers * other,
    }


def between(counted: dict[str, float], messages: int, told: Tree, servers: int) -> dict[str, float]:
    """The same with what servers told one another; ``told`` is stacked over them."""
    each = sum(x.numel() for x in tree.leaves(told)) // servers
    return {rule: n + messages * each for rule, n in counted.items()}


def across(topology: Topology, edges: Tensor, size: int | Tensor) -> Traffic:
    """Messages of a ``size``, or each of its own, along edges; nobody sends to itself.

    A cloud hears and answers each.
    """
    others = edges[:, 0] != edges[:, 1]
    hops = int(others.sum())
    if isinstance(size, Tensor):
        return Traffic(across=int(size[others].sum()), messages=hops)
    if topology.cloud:
        hops = len(edges[:, 0].unique()) + len(edges[:, 1].unique())
    return Traffic(across=hops * size, messages=hops)


def opening(topology: Topology, n: int, handed: int) -> Traffic:
    """What all clients are sent when a later stage begins, beside the downloads."""
    if topology.local or not handed:
        return Traffic()
    return Traffic(down=n * handed, messages=n)


def survey_traffic(
    topology: Topology, n: int, answers: dict[str, Tensor], payload: int, links: Tensor | None
) -> Traffic:
    """What the survey costs: questions with their ``payload`` down, answers up and across.

    Every server needs the answers of all clients it will ever mix: its own, those of its
    neighbours along the edges ``links``, and where clients take turns as the server, everybody's.
    """
    each = tree.size_bytes(answers) // n
    across = hops = 0
    if links is not None:
        clients = torch.bincount(topology.home(n))
        others = links[links[:, 0] != links[:, 1]]
        across, hops = int(clients[others[:, 1]].sum()) * each, len(others)
    if topology.host(0, n) is not None:
        across, hops = n * (n - 1) * each, n * (n - 1)
    if topology.local or topology.host(0, n) is not None:
        # There is no server: the payload goes from client to client until all have it.
        return Traffic(0, 0, across + (n - 1) * payload, hops + (n - 1) * bool(payload))
    return Traffic(n * payload, n * each, across, n * (1 + bool(payload)) + hops)


def asked(
    topology: Topology, n: int, span: range, answers: dict[str, Tensor], payload: int
) -> Traffic:
    """What the survey costs, on the links of the first round of ``span`` that has any."""
    graphs = (topology.links(t, n) for t in span)
    first = next((found for found in graphs if found is not None), None)
    return survey_traffic(topology, n, answers, payload, first)
