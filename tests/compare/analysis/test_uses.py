"""Who used more, or less, than its budget or the baseline."""

import pytest
from comparisons import asked, records

from unalike.compare.analysis.claims import analyse
from unalike.compare.presentation.wording import less, more

CLEAR = {
    "a": [0.80, 0.81, 0.79, 0.80, 0.82],
    "b": [0.90, 0.92, 0.90, 0.91, 0.92],
    "c": [0.70, 0.70, 0.69, 0.72, 0.71],
}


def test_who_used_more_is_judged_on_the_same_seeds():
    """A seed that is costly for everybody, and finished under one method only."""
    made = asked(seeds=2)
    rows = records(made, {"a": [0.5], "b": [0.5, 0.6]})
    next(r for r in rows if r["seed"] == 1)["ledger"]["bytes"] = 9000
    assert [line.more for line in analyse(made, rows).lines] == [[], []]


def test_who_used_more_than_the_baseline_says_so():
    made = asked(("a", "b", "c"))
    values = {m: [0.5, 0.6] for m in "abc"}
    ledgers = {"b": {"bytes": 2000}, "c": {"bytes": 1005, "samples": 150.0, "rounds": 9}}
    lines = analyse(made, records(made, values, ledgers)).lines
    found = {line.label: more(line, made) for line in lines}
    assert found["a"] == ""
    assert found["b"] == "2 times the bytes of a"
    assert found["c"] == "1.5 times the samples of a and 1.8 times the rounds of a"


def test_who_used_more_than_the_budget_says_so():
    made = asked(budget={"bytes": 1000})
    values, ledgers = {"a": [0.5], "b": [0.5]}, {"a": {"bytes": 1000}, "b": {"bytes": 1004}}
    lines = analyse(made, records(made, values, ledgers)).lines
    assert [more(line, made) for line in lines] == ["", "0.4 % more than the budget of bytes"]


def test_the_baseline_itself_may_break_the_budget():
    made = asked(budget={"bytes": 500})
    lines = analyse(made, records(made, {"a": [0.5], "b": [0.5]})).lines
    assert more(lines[0], made) == "2 times the budget of bytes"


def test_a_baseline_that_sends_nothing_is_no_division_by_zero():
    made = asked()
    values, ledgers = {"a": [0.5], "b": [0.5]}, {"a": {"bytes": 0}}
    line = analyse(made, records(made, values, ledgers)).lines[1]
    assert more(line, made) == "more than the bytes of a"


@pytest.mark.parametrize("budget", ["bytes", {"bytes": 1000}])
def test_who_left_some_of_the_budget_says_so(budget):
    made = asked("abc", budget=budget)
    ledgers = {"b": {"bytes": 950}, "c": {"bytes": 200}}
    lines = analyse(made, records(made, {m: [0.5, 0.6] for m in "abc"}, ledgers)).lines
    assert [less(line) for line in lines] == ["", "", "only 20 % of the budget of bytes"]
