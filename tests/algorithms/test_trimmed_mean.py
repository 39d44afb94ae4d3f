"""The coordinate-wise trimmed mean; what all defences share is in test_defences.py."""

import pytest
from filtering import FIVE, used

from unalike.algorithms.median import Median
from unalike.algorithms.trimmed_mean import TrimmedMean


def test_trimmed_mean() -> None:
    """One of five cut at each end: (2 + 3 + 4) / 3 and (10 + 20 + 30) / 3."""
    assert used(TrimmedMean(trim=0.2), FIVE) == pytest.approx([3.0, 20.0])
    assert used(TrimmedMean(trim=0.25), FIVE[:4]) == pytest.approx([2.5, 25.0])


@pytest.mark.parametrize(
    ("trim", "n", "cut"),
    [(0.2, 5, 1), (0.2, 4, 0), (0.29, 100, 29), (0.49, 3, 1), (0.1, 30, 3), (0.0, 9, 0)],
)
def test_how_many_are_trimmed(trim: float, n: int, cut: int) -> None:
    assert TrimmedMean(trim=trim).cut(n) == cut


def test_trimming_nobody_is_the_plain_mean() -> None:
    """(1 + 2 + 4 + 3) / 4 and (10 + 30 + 20 + 50) / 4."""
    assert used(TrimmedMean(trim=0.0), FIVE[:4]) == pytest.approx([2.5, 27.5])


def test_trimming_to_the_middle_is_the_median() -> None:
    assert used(TrimmedMean(trim=0.49), FIVE) == used(Median(), FIVE)
