"""Rounds and bytes to a target."""

import pytest

from unalike.errors import DataError
from unalike.metrics.rounds import bytes_to_target, rounds_to_target

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "target", "higher", "expected"),
    [
        ([0.1, 0.5, 0.4, 0.6], 0.5, True, 2),
        ([0.1, 0.5, 0.4, 0.6], 0.55, True, 4),
        ([0.1, 0.5], 0.9, True, None),
        ([2.0, 1.0, 0.5], 1.0, False, 2),
        ([2.0, 1.0, 0.5], 0.1, False, None),
        ([NAN, 0.7], 0.5, True, 2),
        ([NAN, NAN], 0.5, False, None),
        ([], 0.5, True, None),
        ({0: 0.1, 10: 0.7, 5: 0.6}, 0.5, True, 5),
        ({0: 0.9}, 0.5, True, 0),
    ],
)
def test_first_round_that_reaches(values, target, higher, expected):
    assert rounds_to_target(values, target, higher) == expected


def test_bytes_include_rounds_without_evaluation():
    values = {0: 0.1, 2: 0.4, 4: 0.8}
    assert bytes_to_target(values, [10, 10, 10, 7, 99], 0.8) == 37
    assert bytes_to_target(values, {r: 10 for r in range(1, 9)}, 0.4) == 20
    assert bytes_to_target(values, [10], 0.05) == 0
    assert bytes_to_target(values, [10], 0.9) is None


def test_bytes_must_cover_the_round():
    with pytest.raises(DataError, match="reached in round 2, but bytes_by_round has no such round"):
        bytes_to_target([0.1, 0.9], [10], 0.5)


def test_target_must_be_a_number():
    with pytest.raises(DataError, match="target must be a number, got NaN"):
        rounds_to_target([0.1], NAN)
