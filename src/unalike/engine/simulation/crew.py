"""The workers of a simulation, where they compute one thing together."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple


class Workers(NamedTuple):
    """A pool of threads, one of which may wait while the thread that asks does its part."""

    pool: Executor
    many: int

    def __call__(self, f: Callable[[], int], here: bool) -> list[int]:
        """``f`` by as many threads as there are workers; this is one of them if ``here``."""
        others = [self.pool.submit(f) for _ in range(self.many - here)]
        return [*([f()] if here else []), *(other.result() for other in others)]
