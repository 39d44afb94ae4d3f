"""A method's learning rate."""

import math

import pytest

from unalike.advise.rates import TRIES, best, search


@pytest.mark.parametrize(
    ("start", "peak", "tried"),
    [
        (0.05, 0.5, [0.05, 0.16, 0.5, 1.6]),  # up until it falls
        (0.05, 0.05, [0.05, 0.16, 0.016]),  # both neighbours are worse
        (0.5, 0.05, [0.5, 1.6, 0.16, 0.05, 0.016]),  # down, after one step up
        (0.01, 10.0, [0.01, 0.032, 0.1, 0.32, 1.0]),  # as far as there are tries
    ],
)
def test_a_search_climbs_to_the_peak(start, peak, tried):
    def score(rate):
        return -abs(math.log(rate / peak))

    found = search(score, start, higher=True)
    assert list(found) == tried
    assert len(found) <= TRIES + 1
    loss = search(lambda rate: -score(rate), start, higher=False)
    assert list(loss) == tried


def test_a_score_that_is_known_is_not_asked_for_again():
    asked = []

    def score(rate):
        asked.append(rate)
        return 0.0

    assert search(score, 0.1, higher=True, known=0.9)[0.1] == 0.9
    assert asked == [0.32, 0.032]


def test_what_cannot_be_trained_with_is_worst():
    found = search(lambda rate: None if rate > 0.2 else rate, 0.1, higher=False)
    assert found[0.32] is None
    assert best(found, higher=False) == 0.0032
    assert best({0.1: None, 0.2: 0.5}, higher=True) == 0.2
    assert best({0.1: None}, higher=True) == 0.1


def test_of_equals_the_first_stays():
    assert best({0.1: 0.5, 0.32: 0.5}, higher=True) == 0.1
