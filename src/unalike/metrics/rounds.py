"""What it costs to reach a target: the first round that does, and the bytes sent until then."""

from collections.abc import Mapping, Sequence

from unalike.errors import DataError

Series = Mapping[int, float] | Sequence[float]  # by round, or the rounds 1, 2, ... in order


def rounds_to_target(
    values_by_round: Series, target: float, higher_is_better: bool = True
) -> int | None:
    """The first round whose value is at least (or at most) the target; None if none is.

    A NaN, as after divergence, reaches no target.
    """
    if target != target:
        raise DataError("target must be a number, got NaN.")
    sign = 1 if higher_is_better else -1
    reached = (r for r, v in _by_round(values_by_round).items() if sign * v >= sign * target)
    return min(reached, default=None)


def bytes_to_target(
    values_by_round: Series,
    bytes_by_round: Series,
    target: float,
    higher_is_better: bool = True,
) -> int | None:
    """The bytes of all rounds up to the one that reaches the target; None if none does.

    Args:
        values_by_round: The metric; rounds without evaluation may be missing.
        bytes_by_round: Bytes sent in each round, up and down together, not accumulated.
        target: The value to reach.
        higher_is_better: False for a loss.
    """
    last = rounds_to_target(values_by_round, target, higher_is_better)
    if last is None:
        return None
    sent = _by_round(bytes_by_round)
    if last not in sent and last > 0:  # round 0 is the untrained model, which cost nothing
        raise DataError(
            f"the target was reached in round {last}, but bytes_by_round has no such round."
        )
    return int(sum(b for r, b in sent.items() if r <= last))


def _by_round(series: Series) -> Mapping[int, float]:
    return series if isinstance(series, Mapping) else dict(enumerate(series, start=1))
