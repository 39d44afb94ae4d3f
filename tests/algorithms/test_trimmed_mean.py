"""The coordinate-wise trimmed mean; what all defences share is in test_defences.py."""

import re

import pytest
from federations import Data, composed, network_task, rows_of
from filtering import FIVE, used

from unalike.algorithms.median import Median
from unalike.algorithms.trimmed_mean import TrimmedMean
from unalike.errors import ConfigError


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


@pytest.mark.parametrize("n", range(1, 13))
def test_the_advice_can_be_followed(n: int) -> None:
    """The share that is named is enough; of two answers none can be left out at both ends."""
    task, data = network_task("dense")
    few = Data(data.examples, rows_of([8] * n))
    with pytest.raises(ConfigError) as error:
        composed(task, few, ("trimmed_mean", {"trim": 0.01}))
    named = re.search(r"at least (0\.\d+)", str(error.value))
    assert (named is None) == (n < 3)
    if named is not None:
        composed(task, few, ("trimmed_mean", {"trim": float(named[1])}))


def test_trimming_nobody_is_the_plain_mean() -> None:
    """(1 + 2 + 4 + 3) / 4 and (10 + 30 + 20 + 50) / 4."""
    assert used(TrimmedMean(trim=0.0), FIVE[:4]) == pytest.approx([2.5, 27.5])


def test_trimming_to_the_middle_is_the_median() -> None:
    assert used(TrimmedMean(trim=0.49), FIVE) == used(Median(), FIVE)
