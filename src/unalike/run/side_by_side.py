"""Several experiments at the same time on one device, whose clients train in the same calls."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from unalike.engine.simulation.lockstep import Lockstep
from unalike.run.experiment.build import Experiment

T = TypeVar("T")


def side_by_side(some: Sequence[Experiment], play: Callable[[Experiment], T]) -> list[T]:
    """``play`` of each, all at once; the first failure is raised when all have ended.

    Numbers differ from those of a run by itself in their last digits, as between any two sizes of a
    batch of matrix products.
    """
    lockstep = Lockstep([made.simulation for made in some])

    def one(made: Experiment) -> T:
        try:
            return play(made)
        finally:
            lockstep.leave()

    with ThreadPoolExecutor(max(len(some), 1)) as pool:
        begun = [pool.submit(one, made) for made in some]
        try:
            wait(begun)
        except BaseException as error:  # Ctrl-C, which the runs' own threads do not hear of
            lockstep.stop(error)
            raise
    return [each.result() for each in begun]
