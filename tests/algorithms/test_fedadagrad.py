"""FedAdagrad: two increments, with the state kept in between; tau = 1e-4, rate 0.01."""

from itertools import pairwise

import pytest
from server_steps import FIRST, SECOND, increments

from unalike.algorithms.fedopt import FedAdagrad

ADAGRAD = FedAdagrad(lr=0.01, tau=1e-4)


def test_two_increments() -> None:
    """m_0 = 0, v_0 = tau^2; without a first moment unless one is asked for."""
    first, second = increments(ADAGRAD, FIRST, SECOND)
    assert first == pytest.approx((0.009997, -0.009950), abs=1e-6)
    assert second == pytest.approx((0.003161, 0.009268), abs=1e-6)
    assert FedAdagrad().b1 == 0


def test_a_known_mistake_gives_other_numbers() -> None:
    """A released program updates v twice in one step: 0.007069, -0.007046."""
    assert abs(increments(ADAGRAD, FIRST)[0][0] - 0.007069) > 1e-3


def test_steps_only_shrink() -> None:
    """The same difference again and again: the second moment is a sum."""
    steps = [step[0] for step in increments(ADAGRAD, *[FIRST] * 9)]
    assert all(a > b for a, b in pairwise(steps))
