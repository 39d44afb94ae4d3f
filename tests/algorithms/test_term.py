"""TERM: weights exponential in the loss."""

import pytest
from federations import composed, distance, network_task, play, sampled
from weighing import CLOSE, F, plain, weigh

from unalike.algorithms.term import Term


@pytest.mark.parametrize(
    ("by_examples", "expected"),
    [(True, [0.100816, 0.258901, 0.640283]), (False, [0.227220, 0.291756, 0.481024])],
)
def test_three_clients(by_examples: bool, expected: list[float]) -> None:
    rule = Term(tilt=0.5, by_examples=by_examples)
    assert plain(weigh(rule, loss=F)) == pytest.approx(expected, **CLOSE)


def test_no_tilt_is_fedavg() -> None:
    task, data = network_task("dense")
    x = play(composed(task, data, ("term", {"tilt": 0.0}), **sampled(0.5)), data).x
    assert distance(x, play(composed(task, data, "fedavg", **sampled(0.5)), data).x) < 1e-6


def test_it_tends_to_the_worst_client_and_back_to_the_best() -> None:
    assert plain(weigh(Term(tilt=1000.0), loss=F)) == pytest.approx([0, 0, 1])
    assert plain(weigh(Term(tilt=-1000.0), loss=F)) == pytest.approx([1, 0, 0])
