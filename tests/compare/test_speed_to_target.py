"""Speed: rounds and bytes to a target, from the curves of finished cells."""

import pytest
from comparisons import asked, records

from unalike.compare.analysis import analyse
from unalike.compare.wording import goal

CLEAR = {
    "a": [0.80, 0.81, 0.79, 0.80, 0.82],
    "b": [0.90, 0.92, 0.90, 0.91, 0.92],
    "c": [0.70, 0.70, 0.69, 0.72, 0.71],
}


def curves(rows, speed):
    """Every run gains 0.1 in so many rounds, of ten bytes each, and ends at 0.8."""
    rounds = list(range(1, 41))
    for i, r in enumerate(rows):
        head = 0.01 * (i * 7 % 5)  # some seeds begin better than others
        values = [min(0.8, head + 0.1 * t / speed[r["label"]]) for t in rounds]
        r["curve"] = {"round": rounds, "value": values, "bytes": [10 * t for t in rounds]}
    return rows


def test_speed_is_rounds_and_bytes_to_most_of_the_baselines_best():
    made = asked("abc")
    rows = curves(records(made, CLEAR), {"a": 4.0, "b": 2.0, "c": 20.0})
    found = {line.label: line.speed for line in analyse(made, rows).lines}
    # 95 % of 0.8 is 0.76: from 0 a is there in round 30.4, b in 15.2, c never.
    assert found["a"]["rounds"].spent == pytest.approx(30.4, abs=1)
    assert found["a"]["rounds"].ratio is None
    assert found["b"]["rounds"].ratio == pytest.approx(0.5, abs=0.03)
    assert found["b"]["rounds"].outcome == "win"
    assert found["b"]["bytes"].spent == pytest.approx(10 * found["b"]["rounds"].spent)
    assert (found["c"]["rounds"].reached, found["c"]["rounds"].of) == (0, 5)
    assert found["c"]["rounds"].spent is None
    assert found["c"]["rounds"].ratio is None
    assert found["c"]["rounds"].outcome == "loss"  # it spent all it had, and needs more


def test_a_target_may_be_stated():
    made = asked("ab", target=0.4)
    rows = curves(records(made, CLEAR), {"a": 4.0, "b": 2.0})
    found = {line.label: line.speed["rounds"].spent for line in analyse(made, rows).lines}
    assert found == {"a": pytest.approx(16, abs=1), "b": pytest.approx(8, abs=1)}
    assert goal(made) == "accuracy 40.00 %"
