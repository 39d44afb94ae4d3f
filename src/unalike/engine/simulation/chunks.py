"""Which clients share one vmapped call: those of similar size, so that little work is padding."""

from collections.abc import Iterator
from heapq import heapify, heapreplace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

CPU_BYTES = 2 << 30  # more would leave the caches anyway
MANY = 8  # groups, so that some are left for workers that are done first
CALL = 4e-3  # seconds of Python for clients of one width on a CPU, as measured on one,
ROW = 1.5e-11  # and of a row of a minibatch for each byte of weights
AT_ONCE = 64  # the most clients whose answers wait for one another,
AT_ONCE_BYTES = 16 << 20  # and their size, beyond which they leave the caches
FEW_BYTES = 32 << 20  # of models that are held until all are there, so that groups do not matter;
LITTLE_BYTES = 4 << 20  # of models over which a pass takes less time than Python for a second call;
GROUPS = 8  # of more, a multiple of that, since sums differ by how they are grouped;
CALL_BYTES = 64 << 20  # of models that one call computes;
CALL_ROWS = 1 << 21  # of minibatches, where workers share one call
COPIES = 8  # weights, gradient, next weights, moments and the temporaries between them


def most(model: int, batch: int, device: torch.device) -> int:
    """How many clients fit into one call, from the bytes of a model and of a minibatch.

    A quarter of a GPU's memory at most: its total, not what happens to be free, so that a resumed
    run cuts its cohorts in the same way.
    """
    budget = CPU_BYTES
    if device.type == "cuda":
        budget = torch.cuda.get_device_properties(device).total_memory // 4
    return max(1, budget // (COPIES * (model + batch)))


def chunks(steps: np.ndarray, largest: int, overhead: float) -> Iterator[Tensor]:
    """Groups of positions, in descending order of their steps, that minimise the estimated time.

    A call over n clients of at most T steps costs T (overhead + n): one step has a fixed price,
    counted in clients, and every client of the call takes part in it. Sorted by size the best cut
    is a shortest path, found by dynamic programming.

    >>> [c.tolist() for c in chunks(np.array([2, 100, 3, 90]), largest=8, overhead=1)]
    [[1, 3], [2, 0]]
    """
    order = np.argsort(-steps, kind="stable")
    tall, n = steps[order].astype(float), len(steps)
    if 0 < n <= largest and tall[0] == tall[-1]:  # nothing to gain by a cut
        yield torch.from_numpy(order)
        return
    cost, cut = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
    cost[0] = 0.0
    for end in range(1, n + 1):
        first = np.arange(max(0, end - largest), end)
        price = cost[first] + tall[first] * (overhead + end - first)
        cut[end] = first[np.argmin(price)]
        cost[end] = price.min()
    ends = [n]
    while ends[-1] > 0:
        ends.append(int(cut[ends[-1]]))
    for a, b in zip(ends[:0:-1], ends[-2::-1], strict=True):
        yield torch.from_numpy(order[a:b].copy())


def joined(widths: np.ndarray, steps: np.ndarray, model: int) -> np.ndarray:
    """Widths of clients' minibatches, with narrow ones as wide as the next where that is cheaper.

    Clients of one width are computed together, so each width has calls of its own; a step on more
    rows takes longer by what a row costs, for weights of so many bytes.

    >>> few, many = np.array([4, 8, 8]), np.array([4] * 500 + [8])
    >>> joined(few, np.ones(3), model=1 << 20).tolist()
    [8, 8, 8]
    >>> np.unique(joined(many, np.ones(501), model=1 << 20)).tolist()
    [4, 8]
    """
    widths, kinds = widths.copy(), np.unique(widths)
    for narrow, wide in pairwise(kinds):
        here = widths == narrow
        if steps[here].sum() * (wide - narrow) * model * ROW < CALL:
            widths[here] = wide
    return widths


def shares(steps: np.ndarray, count: int) -> list[Tensor]:
    """At most so many groups of positions with about the same number of steps, in ascending order.

    Clients of a group are computed one after the other, so all that matters is that workers finish
    together. If all are equal or there are many groups, neighbours stay together, because their
    models are adjacent in memory; otherwise the longest clients come first, each in the group with
    the fewest steps.

    >>> [s.tolist() for s in shares(np.array([2, 100, 3, 90]), 2)]
    [[1], [0, 2, 3]]
    >>> [s.tolist() for s in shares(np.array([5, 5, 5, 5]), 2)]
    [[0, 1], [2, 3]]
    """
    work, count = np.maximum(steps, 1).astype(float), min(count, len(steps))
    if count > MANY or work.min() == work.max():
        ends = work.cumsum()
        group = ((ends - work / 2) * count / ends[-1]).astype(np.int64)
        cuts = np.flatnonzero(np.diff(group)) + 1
        return [torch.from_numpy(g) for g in np.split(np.arange(len(steps)), cuts)]
    load: list[tuple[float, int]] = [(0.0, g) for g in range(count)]
    groups: list[list[int]] = [[] for _ in load]
    heapify(load)
    for i in np.argsort(-work, kind="stable").tolist():
        least, g = load[0]
        groups[g].append(i)
        heapreplace(load, (least + work[i], g))
    return [torch.tensor(sorted(group)) for group in groups]


def calls(
    sizes: np.ndarray,
    epochs: np.ndarray,
    batch: int,
    model: int,
    workers: int,
    largest: int = 0,
    whole: bool = False,
) -> Iterator[list[Tensor]]:
    """Positions of the clients of each call, in pieces whose sums are made one by one.

    Clients of a call have minibatches of one width. Pieces stay in a cache and depend on the
    workers only where few clients are held anyway; so a sum does not depend on them.

    Args:
        sizes: Of the data of each client.
        epochs: How often each goes through them.
        batch: Rows of a minibatch.
        model: Bytes of one.
        workers: How many compute at the same time.
        largest: The most clients of a piece; 0 for what is fast.
        whole: Whether workers share the clients of a call, which are then as many as possible and,
            where all are held, one piece in ascending order. Numbers are the same.
    """
    steps = np.ceil(sizes * epochs / batch)
    own = np.minimum(2 ** np.ceil(np.log2(sizes)), batch)
    widths = joined(own, steps, model)
    at_once = largest or min(AT_ONCE, max(AT_ONCE_BYTES // model, 1))
    for width in np.unique(widths)[::-1]:
        here = np.flatnonzero(widths == width)
        few = len(here) * model <= FEW_BYTES
        rows = -(-len(here) * int(steps[here].max()) * batch // CALL_ROWS)
        if whole and few and rows == 1 and own[here].min() == own[here].max():
            yield [torch.from_numpy(here)]
            continue
        groups = workers if few else GROUPS
        count = groups * -(-len(here) // (groups * at_once))
        parts = (part for some in shares(steps[here], count) for part in some.split(at_once))
        pieces = [torch.from_numpy(here)[part] for part in parts]
        count = rows if whole else max(workers, -(-len(here) * model // CALL_BYTES))
        for call in _put_together(pieces, [own[p.numpy()].max() for p in pieces], count):
            yield [torch.cat(call).sort().values] if whole and few else call


def _put_together(pieces: list[Tensor], widths: list[float], count: int) -> Iterator[list[Tensor]]:
    """About so many calls of pieces that follow one another.

    A call computes with the widest minibatch of its clients. That must not change numbers, so
    pieces share one only if they are as wide by themselves.

    >>> four = [torch.tensor([i]) for i in range(4)]
    >>> [len(call) for call in _put_together(four, [8, 8, 8, 4], 2)]
    [2, 1, 1]
    """
    most_pieces, call = -(-len(pieces) // count), list[Tensor]()
    for i, piece in enumerate(pieces):
        if call and (len(call) == most_pieces or widths[i] != widths[i - 1]):
            yield call
            call = []
        call.append(piece)
    if call:
        yield call
