"""AFL: projected ascent on the clients' weights."""

import pytest
import torch
from federations import cohort
from weighing import CLOSE, F, N, plain, weigh

from unalike.algorithms.afl import Afl


@pytest.mark.parametrize(
    ("rate", "expected"), [(0.1, [0.266667, 0.316667, 0.416667]), (1.0, [0.0, 0.0, 1.0])]
)
def test_three_clients(rate: float, expected: list[float]) -> None:
    assert plain(weigh(Afl(rate=rate), loss=F)) == pytest.approx(expected, **CLOSE)


def test_without_a_step_all_weigh_alike() -> None:
    assert plain(weigh(Afl(rate=0.0), loss=F)) == pytest.approx([1 / 3] * 3)


def test_it_tends_to_the_worst_client() -> None:
    """Hundreds of rounds: a vertex is reached and kept."""
    rule = Afl(rate=0.01)
    state = rule.init(3)
    for _ in range(300):
        p, state, *_ = rule.weights(state, cohort(N, loss=F))
        assert float(p.sum()) == pytest.approx(1)
    assert plain(p) == [0.0, 0.0, 1.0]


def test_absent_clients_are_left_alone() -> None:
    """Who did not answer counts with the mean loss of those who did."""
    rule = Afl(rate=0.1)
    p, state, *_ = rule.weights(rule.init(4), cohort([1, 1], [0, 3], n=4, loss=[1.0, 2.0]))
    assert plain(state) == pytest.approx([0.2, 0.25, 0.25, 0.3])
    assert plain(p) == pytest.approx([0.4, 0.6])


def test_when_all_the_weight_is_with_absent_clients() -> None:
    rule = Afl(rate=0.1)
    state = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    p, *_ = rule.weights(state, cohort([1, 9], [0, 1], n=3, loss=[1.0, 1.0]))
    assert plain(p) == [0.5, 0.5]
