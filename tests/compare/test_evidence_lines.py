"""benchmarks/evidence_lines.py: what is kept of a run beside its metrics."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
lines = importlib.import_module("evidence_lines")


def records(losses, weights):
    """Rounds of two clients."""
    pairs = zip(losses, weights, strict=True)
    return [{"clients": [0, 1], "losses": f, "weights": p} for f, p in pairs]


def test_the_summed_objective_is_that_of_weights_decided_before_the_losses():
    found = lines.objective(records([[4, 2], [1, 3], [2, 2]], [[0.75, 0.25], [0, 1], [0.5, 0.5]]))
    # uniform weights first: 3 + (0.75 + 0.75) + 2, and by those of the same round: 3.5 + 3 + 2
    assert found == pytest.approx({"decided": 6.5, "used": 8.5, "mean": 7.0})


def test_there_is_none_unless_every_loss_is_heard_in_every_round():
    whole = records([[4, 2], [1, 3]], [[0.5, 0.5], [0, 1]])
    assert lines.objective(whole)
    assert lines.objective([whole[0], {"clients": [0, 1], "weights": [0.5, 0.5]}]) == {}
    assert lines.objective([whole[0], {"clients": [1], "losses": [3], "weights": [1]}]) == {}
    assert lines.objective([whole[0], {"clients": [0, 1], "losses": [1, 3], "weights": []}]) == {}
