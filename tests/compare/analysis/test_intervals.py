"""Intervals that two seeds leave as wide as they are, cut where no value can be."""

from unalike.compare.presentation.tables import difference


def test_no_difference_of_shares_is_beyond_a_hundred_points() -> None:
    assert difference(0.1, -3.2, 3.4, "accuracy").text == "+10.00 [-100.00, 100.00]"
    assert difference(0.1, -0.2, 0.4, "accuracy").text == "+10.00 [-20.00, 40.00]"
    assert difference(0.1, -3.2, 3.4, "loss").text == "+0.1000 [-3.2000, 3.4000]"
