"""Who computes on which core: workers while clients train, then any work that covers many clients.

Work is cut into the same pieces for any number of threads, and each piece is computed by one of
them, so that a run gives the same numbers on another machine.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")
_spared = 1  # threads that a lone one could have beside it, itself among them


@contextmanager
def lone() -> Iterator[None]:
    """While workers have all cores, this thread goes without helpers."""
    global _spared
    found, before = torch.get_num_threads(), _spared
    try:
        _spared = max(found, before)
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(found)
        _spared = before


def each(f: Callable[[T], object], items: Iterable[T]) -> None:
    """``f`` of every item, on the cores that workers have left again; items do not touch."""
    if _spared == 1:
        deque(map(f, items), maxlen=0)
        return
    with ThreadPoolExecutor(_spared, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        deque(pool.map(f, items), maxlen=0)
