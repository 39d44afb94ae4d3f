"""The coordinate-wise median; what all defences share is in test_defences.py."""

from filtering import FIVE, used

from unalike.algorithms.median import Median


def test_median_of_an_odd_number() -> None:
    """1 2 3 4 1e6 and -1e6 10 20 30 50."""
    assert used(Median(), FIVE) == [3.0, 20.0]


def test_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    """1 2 3 4 and 10 20 30 50."""
    assert used(Median(), FIVE[:4]) == [2.5, 25.0]


def test_median_is_one_row_that_ignores_weights() -> None:
    """Whatever a client claims to weigh."""
    assert used(Median(), FIVE, [0.0, 0.0, 0.0, 0.0, 1.0]) == [3.0, 20.0]
