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


def whole(file, **more):
    """A line of a run, as evidence.py leaves it."""
    spread = {"mean": 0.9, "weighted_mean": 0.8, "min": 0.7, "gini": 0.1, "std": 0.2}
    about = {"file": f"somewhere/{file}.toml", "seed": 0, "on": "cpu", "condition": "", "label": ""}
    about |= {"bytes_up": 1, "bytes_down": 1, "clients": {}, "curve": {"round": [1]}}
    measured = dict.fromkeys(("accuracy", "auroc", "recall", "f1"), spread)
    return {**about, "last": {"local": measured}, **more}


@pytest.mark.parametrize(
    ("file", "kept"), [("berka", True), ("heart", True), ("writers", True), ("berka-cdf", False)]
)
def test_the_gini_index_is_kept_where_a_table_needs_it(file, kept):
    found = lines.short(whole(file))["last"]["local"]["accuracy"]
    assert ("gini" in found) == kept


def test_recall_and_f1_are_kept_where_a_table_needs_them():
    assert set(lines.short(whole("fedep-recall"))["last"]["local"]) == {"accuracy", "recall", "f1"}
    assert set(lines.short(whole("fedep-star"))["last"]["local"]) == {"accuracy"}


def test_the_line_between_two_models_is_kept():
    points = {"at": [0.0, 1.0], "accuracy": [0.5, 0.6]}
    assert lines.short(whole("superfed-line", line=points))["line"] == points
