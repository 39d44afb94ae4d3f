"""PropFair's weights on the server."""

import pytest
from federations import cohort, composed, distance, network_task, play, sampled
from weighing import CLOSE, F, N, plain, weigh

from unalike.algorithms.propfair import PropFair


def test_three_clients() -> None:
    """n / (3 - F) ~ 4, 10, 30."""
    expected = [0.090909, 0.227273, 0.681818]
    assert plain(weigh(PropFair(baseline=3.0), loss=F)) == pytest.approx(expected, **CLOSE)


def test_a_large_baseline_is_fedavg() -> None:
    task, data = network_task("dense")
    x = play(composed(task, data, ("propfair", {"baseline": 1e12}), **sampled(0.5)), data).x
    assert distance(x, play(composed(task, data, "fedavg", **sampled(0.5)), data).x) < 1e-6


def test_beyond_its_baseline() -> None:
    """Losses above M - floor count as M - floor: most, finitely, and never negatively."""
    p = weigh(PropFair(baseline=1.5), loss=[1.3, 1.5, 40.0])
    assert plain(p) == pytest.approx([n / 60 for n in N])


def test_it_says_when_it_saturates() -> None:
    """How many clients it cannot tell apart, and what to do; nothing where it can."""
    rule = PropFair(baseline=1.5)
    said = rule.weights((), cohort(N, loss=[1.2, 1.5, 40.0])).note
    assert said == (
        "2 of 3 clients have a loss above 1.3, beyond which PropFair treats all the same; raise "
        "method.baseline"
    )
    assert rule.weights((), cohort(N, loss=[0.1, 1.2, 1.29])).note == ""
    task, data = network_task("dense")
    played = play(composed(task, data, ("propfair", {"baseline": 0.3, "floor": 0.01})), data, 1)
    assert "6 of 6 clients" in played.rounds[0].notes[0]
