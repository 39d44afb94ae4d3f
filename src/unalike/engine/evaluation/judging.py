"""What both sides of an evaluation share: a model's outputs on many rows, results put together."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike.engine.evaluation.inference import quick
from unalike.metrics.calibration import Reliability, pool
from unalike.network import Network
from unalike.tasks import Judged, Task
from unalike.tree import Params

Each = Callable[[Callable[[Any], Any], list[Any]], list[Any]]  # a function of every item
MANY, SOME, FEW = 4096, 1024, 128  # rows in one forward pass


class Exam(NamedTuple):
    """What clients are asked to measure when they test models."""

    ensemble: str = "probabilities"  # what an ensemble of them is
    train: bool = False  # whether training rows are judged, too
    line: int = 0  # points of the line to clients' own models that are judged, too
    steps: tuple[int, ...] = ()  # after which new clients are judged, too
    adversary: bool = False  # whether one is tried on their representations
    clients: int = 0  # the most that judge, the first by number; 0: all


USUAL = Exam()


def judging(clients: int, most: int) -> int:
    """How many clients judge: the first ones, which are as good as any, since numbers are drawn.

    >>> judging(100, 0), judging(100, 30)
    (100, 30)
    """
    return min(clients, most or clients)


def at_once(network: Network, device: torch.device) -> int:
    """How many rows go through a network together.

    What a convolution leaves between its layers must stay in a processor's caches: 128 rows take
    half the time of 4,096. Matrix products alone, and GPUs, want many rows.
    """
    cached = device.type == "cpu" and not network.dense and not network.batch_dependent
    return FEW if cached else MANY


def outputs(
    task: Task,
    w: Params,
    x: Tensor,
    noise: Tensor,
    rows: Tensor | None = None,
    each: Each | None = None,
) -> Tensor:
    """What one model says of every row, or of some ``rows``.

    These are copied few at a time: on a CPU a copy of all of them costs half of what is computed.
    There ``each`` shares pieces out to workers of one core, who need not wait for one another
    within a layer.
    """
    size, cpu = at_once(task.network, x.device), x.device.type == "cpu"
    if cpu and not task.network.batch_dependent:
        size = min(size, SOME)

    def said(piece: slice | Tensor) -> Tensor:
        with torch.no_grad(), quick(x.device):  # a thread says so for itself
            if isinstance(piece, slice):
                return task.outputs(w, x[piece], noise[piece])
            return task.outputs(w, x.index_select(0, piece), noise.index_select(0, piece))

    pieces: list[Any] = [slice(i, i + size) for i in range(0, max(len(x), 1), size)]
    if rows is not None:
        pieces = list(torch.split(rows, size))
    if each is None or not cpu or len(pieces) == 1:
        return torch.cat([said(piece) for piece in pieces])
    return torch.cat(each(said, pieces))


def side_by_side(each: Sequence[Judged]) -> Judged:
    """The results of several models, one after the other."""
    metrics = {k: torch.cat([j.metrics[k] for j in each]) for k in each[0].metrics}
    bins = [j.bins for j in each if j.bins is not None]
    return Judged(metrics, Reliability(*map(torch.cat, zip(*bins, strict=True))) if bins else None)


def merged(found: Judged, models: int) -> Judged:
    """The mean over models whose results are stacked side by side."""
    metrics = {k: v.double().reshape(models, -1).nanmean(0) for k, v in found.metrics.items()}
    return Judged(metrics, None if found.bins is None else pool(found.bins))
