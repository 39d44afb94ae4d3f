"""Speed: rounds and bytes to a target, from the curves of finished cells."""

from dataclasses import replace

import pytest
from comparisons import asked, records

from unalike.compare.analysis.claims import analyse
from unalike.compare.analysis.lines import Speed, Versus
from unalike.compare.presentation.tables import differences, speeds, tables
from unalike.compare.presentation.wording import goal

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


def test_a_baseline_whose_best_is_below_zero_reaches_its_own_target():
    """R² is negative until a model is better than the mean."""
    values = {label: [0.0] * 5 for label in "ab"}
    made = asked(values, metric="r2")
    curve = {"round": [1, 2, 3], "value": [-0.9, -0.6, -0.5], "bytes": [10, 20, 30]}
    told = [r | {"curve": curve} for r in records(made, values)]
    found = analyse(made, told).of("a")[0].speed["rounds"]
    assert (found.reached, found.of) == (5, 5)
    assert goal(made) == "95 % (below zero 1/0.95) of a's best R² under the same seed"


def test_all_conditions_have_a_speed_of_their_own():
    many = [{"alpha": a, "label": f"a{a:g}"} for a in (0.1, 1.0)]
    made = asked("abc", partitions=many)
    rows = curves(records(made, CLEAR), {"a": 4.0, "b": 2.0, "c": 20.0})
    found = analyse(made, rows)
    whole = {line.label: line.speed["rounds"] for line in found.overall}
    assert (whole["b"].reached, whole["b"].of, whole["b"].outcome) == (10, 10, "win")
    assert whole["b"].ratio == pytest.approx(0.5, abs=0.03)
    assert (whole["c"].ratio, whole["c"].outcome) == (None, "loss")
    table = tables(made, found)[2]
    assert table.title.startswith("all conditions: rounds and bytes to 95 %")
    assert [row[-1].text for row in table.rows] == ["—", "win", "loss"]


def test_a_ratio_that_never_varies_has_no_interval():
    """Twice the bytes in the same rounds: five equal signs are all there is, and p says so."""
    made = asked("ab")
    rows = curves(records(made, CLEAR), {"a": 4.0, "b": 4.0})
    for r in rows:
        r["curve"]["value"] = [0.01 * t for t in range(1, 41)]
        if r["label"] == "b":
            r["curve"]["bytes"] = [20 * t for t in range(1, 41)]
    line = next(x for x in analyse(made, rows).lines if x.label == "b")
    found = line.speed["bytes"]
    assert found.ratio == pytest.approx(2.0)
    assert (found.low, found.high, found.p, found.outcome) == (None, None, 2**-4, "open")
    assert (line.speed["rounds"].low, line.speed["rounds"].outcome) == (1.0, "equal")
    shown = tables(made, analyse(made, rows))[-1].rows[1]
    assert [c.text for c in shown[-4:]] == ["760 B", "2.00", "0.062", "open"]


def test_who_sends_nothing_has_no_ratio_of_bytes():
    made = asked("abc")
    rows = curves(records(made, CLEAR), {"a": 4.0, "b": 2.0, "c": 4.0})
    for r in rows:
        if r["label"] == "b":
            r["curve"]["bytes"] = [0] * 40
    found = {line.label: line.speed for line in analyse(made, rows).lines}
    assert found["b"]["rounds"].outcome == "win"
    assert found["b"]["bytes"] == Speed(5, 5, None)
    assert found["c"]["bytes"].ratio is not None
    assert analyse(asked("abc", baseline="b"), rows).lines[0].speed["bytes"].ratio is None


def test_ends_that_a_few_seeds_leave_open_are_not_written_out():
    wide = Speed(2, 2, 3.0, 1.5, 1e-9, 1e9, 1.0, "open")
    versus = Versus(2, 0.1, None, None, 0.5, None, -5.0, 5.0, 1.0, 48.0)
    made = asked("ab")
    line = analyse(made, curves(records(made, CLEAR), {"a": 4.0, "b": 2.0})).of("b")[0]
    line = replace(line, speed={"rounds": wide}, versus=versus)
    assert speeds(made, [line], "iid").rows[0][2].text == "1.50 [0.00, over 1000]"
    assert differences(made, [line], "iid").rows[0][4].text == "over 100"


@pytest.mark.parametrize(
    ("mine", "theirs", "ends", "shown"),
    [
        (5, 5, (0.2, 0.8), "0.40 [0.20, 0.80]"),
        (4, 5, (0.2, None), "≥ 0.40 [0.20, ∞)"),
        (5, 3, (None, 0.8), "≤ 0.40 (0, 0.80]"),
        (4, 3, (None, None), "≈ 0.40"),
    ],
)
def test_ratios_of_what_missed_the_target_are_bounds(mine, theirs, ends, shown):
    made = asked("ab")
    whole = analyse(made, curves(records(made, CLEAR), {"a": 4.0, "b": 2.0}))
    base = replace(whole.of("a")[0], speed={"rounds": Speed(theirs, 5, 3.0)})
    line = replace(whole.of("b")[0], speed={"rounds": Speed(mine, 5, 3.0, 0.4, *ends, 0.5, "open")})
    assert speeds(made, [base, line], "iid").rows[1][2].text == shown


def test_a_ratio_that_is_not_one_does_not_read_as_one():
    made = asked("ab")
    whole = analyse(made, curves(records(made, CLEAR), {"a": 4.0, "b": 2.0}))
    for ratio, shown in ((1.0015, "1.002"), (0.9961, "0.996"), (1.0, "1.00"), (1.006, "1.01")):
        found = Speed(5, 5, 3.0, ratio, None, None, 0.01, "loss")
        line = replace(whole.of("b")[0], speed={"rounds": found})
        assert speeds(made, [line], "iid").rows[0][2].text == shown
