"""What a run comes to, from records written by hand."""

from typing import Any

import pytest

from unalike.run.configuration.evaluation import EvaluationSettings
from unalike.run.summary import selected_round, summarise


def record(t: int, validation: float | None, test: float, loss: float = 1.0) -> dict[str, Any]:
    """A line of rounds.jsonl, cut down to what a summary reads."""
    judged = {
        "validation": {"accuracy": {"mean": validation}, "loss": {"mean": loss}},
        "local": {"accuracy": {"mean": test}, "loss": {"mean": loss}},
        "global": {"accuracy": {"mean": test + 0.1}, "loss": {"mean": loss}},
    }
    return {
        "round": t,
        "rejected": {"3": "why"} if t == 2 else {},
        "skipped": "why" if t == 3 else "",
        "notes": [],
        "bytes_down": 100,
        "bytes_up": 10 * t,
        "bytes_across": 1,
        "bytes_before": 0,
        "messages": 4,
        "samples": 50.0,
        "metrics": judged,
    }


def unjudged(t: int) -> dict[str, Any]:
    return {**record(t, 0.0, 0.0), "metrics": None}


RECORDS = [
    record(1, 0.5, 0.9, loss=0.7),
    unjudged(2),
    record(3, 0.8, 0.3, loss=0.9),
    record(4, 0.8, 0.6, loss=0.2),
    record(5, 0.7, 0.5, loss=0.4),
]


def test_the_best_validation_round_is_selected_whatever_the_test_says():
    assert selected_round(RECORDS, "accuracy") == 3  # of equal ones the first
    assert selected_round(RECORDS, "loss") == 4
    assert selected_round(RECORDS, "f1") is None


def test_undefined_values_are_never_selected():
    assert selected_round([record(1, None, 0.9), record(2, 0.1, 0.1)], "accuracy") == 2
    assert selected_round([record(1, None, 0.9)], "accuracy") is None


def test_last_and_selected_side_by_side():
    found = summarise(RECORDS, EvaluationSettings(), "accuracy")
    assert (found["last"]["round"], found["selected"]["round"]) == (5, 3)
    assert found["last"]["local"]["accuracy"]["mean"] == 0.5
    assert found["selected"]["local"]["accuracy"]["mean"] == 0.3
    assert "validation" not in found["selected"]
    assert found["selected_on"] == "validation accuracy, mean over clients"


def test_totals():
    found = summarise(RECORDS, EvaluationSettings(), "accuracy")
    assert (found["bytes_down"], found["bytes_up"], found["bytes_across"]) == (500, 150, 5)
    assert found["bytes_peak"] == 100 + 50 + 1
    assert (found["messages"], found["samples"]) == (20, 250.0)
    assert (found["rejected"], found["skipped"], found["rounds"]) == (1, 1, 5)


@pytest.mark.parametrize(
    ("target", "t", "sent"), [(0.7, 1, 111), (0.95, 1, 111), (0.4, 1, 111), (1.0, 1, 111)]
)
def test_a_target_reached_at_once(target: float, t: int, sent: int):
    found = summarise(RECORDS, EvaluationSettings(target=target), "accuracy")["target"]
    assert (found["section"], found["round"], found["bytes"]) == ("global", t, sent)


def test_a_target_reached_later_counts_the_rounds_between_evaluations():
    later = [record(1, 0.5, 0.1), unjudged(2), record(3, 0.5, 0.6)]
    found = summarise(later, EvaluationSettings(target=0.65), "accuracy")["target"]
    assert (found["round"], found["bytes"]) == (3, 111 + 121 + 131)


def test_a_target_never_reached():
    found = summarise([record(1, 0.5, 0.1)], EvaluationSettings(target=0.9), "accuracy")["target"]
    assert (found["round"], found["bytes"]) == (None, None)


def test_leaks_of_the_last_evaluation() -> None:
    leaky = [
        {**r, "backdoor": 0.1 * i, "backdoor_clean": 0.0, "membership": {"mean": 0.5, "worst": i}}
        for i, r in enumerate(RECORDS)
        if r["metrics"]
    ]
    found = summarise(leaky, EvaluationSettings(), "accuracy")
    last = len(RECORDS) - 1 if RECORDS[-1]["metrics"] else len(RECORDS) - 2
    assert found["backdoor"] == {"success": pytest.approx(0.1 * last), "clean": 0.0}
    assert found["membership"] == {"mean": 0.5, "worst": last}
    assert (
        not {"backdoor", "membership"} & summarise(RECORDS, EvaluationSettings(), "accuracy").keys()
    )
