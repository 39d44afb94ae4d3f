"""The learning rate of each method, since the best method at a bad rate is a bad method.

Starting from its current rate, a method tries one step up, and further ones as long as they help;
if the first did not help, it tries steps down in the same way. A step is a factor of the square
root of ten. A run that diverges or fails is worse than any other.
"""

from collections.abc import Callable

STEP = 10**0.5
TRIES = 4  # rates besides the starting one


def search(
    score: Callable[[float], float | None], start: float, higher: bool, known: float | None = None
) -> dict[float, float | None]:
    """Every rate that was tried, with its score, in the order of trials.

    Args:
        score: The score of a rate; None if it cannot be trained with.
        start: The rate to begin with.
        higher: Whether more is better.
        known: The score of the first rate, if it is known already.
    """
    found = {start: score(start) if known is None else known}
    for direction in (1, -1):
        steps = 0
        while len(found) <= TRIES:
            rate = rounded(start * STEP ** (direction * (steps + 1)))
            found[rate] = score(rate)
            if best(found, higher) != rate:
                break
            steps += 1
        if steps:
            break
    return found


def best(found: dict[float, float | None], higher: bool) -> float:
    """The rate of the best score; of equals the one that was tried first."""
    sign = 1 if higher else -1
    scores = {rate: float("-inf") if s is None else sign * s for rate, s in found.items()}
    return max(scores, key=lambda rate: scores[rate])


def rounded(rate: float) -> float:
    """To two digits, as people write rates.

    >>> rounded(0.05 * STEP), rounded(0.05 * STEP**2)
    (0.16, 0.5)
    """
    return float(f"{rate:.2g}")
