"""What the tests of a run came to."""

from unalike.report.outcome import distinct, leaked, left_out, like_real, reached


def test_clients_without_a_value_are_counted_by_metric():
    spreads = {
        "accuracy": {"clients": 20, "undefined": 0},
        "auroc": {"clients": 10, "undefined": 10},
        "f1": {"clients": 19, "undefined": 1},
        "precision": {"clients": 19, "undefined": 1},
    }
    assert left_out(spreads, "local") == [
        "F1, precision on clients' own test data: 19 of 20 clients have a value, the others are "
        "left out of means.",
        "AUROC on clients' own test data: 10 of 20 clients have a value, the others are left "
        "out of means.",
    ]
    assert left_out(spreads, "global") == []  # one set of rows
    assert left_out({"accuracy": {"clients": 4, "undefined": 0}}, "local") == []


def test_when_the_target_was_reached():
    target = {"accuracy": 0.5, "section": "global", "round": 19, "bytes": 2_930_000}
    goal = "accuracy 50.00 % on global test data"
    assert reached(target) == f"{goal} was reached in round 19, after 2.93 MB"
    timed = reached({**target, "clock": 2.46})
    assert (
        timed == f"{goal} was reached in round 19, after 2.93 MB and 2.5 s of the simulated clock"
    )
    assert reached({**target, "round": None, "clock": None}) == f"{goal} was not reached"


def test_what_an_outsider_could_do():
    assert leaked({}) == []
    assert (
        leaked({"backdoor": {"success": None, "clean": None}, "membership": {"mean": None}}) == []
    )
    door, told = leaked(
        {
            "backdoor": {"success": 0.812, "clean": 0.05},
            "membership": {"mean": 0.5678, "worst": 0.61},
        }
    )
    assert "81.2 % of the test rows of other classes" in door
    assert "taken for the attackers' target, without it 5.0 %" in door
    assert "AUC of 0.568 on average, 0.610 at worst" in told


def test_how_like_real_examples_made_ones_are():
    made = {"fid": 12.876, "fid_rows": [359, 100], "coverage": [0.0, None, 0.457]}
    distance = "100 generated examples are at a distance (FID) of 12.9 from 359 real ones"
    assert (
        like_real(made) == f"{distance} and cover from 0 % (class 0) to 46 % (class 2) of a class"
    )
    assert like_real({**made, "coverage": [None]}) == distance


def test_a_line_that_a_method_does_not_have_is_not_shown():
    one, other = {"accuracy": {"mean": 0.5}}, {"accuracy": {"mean": 0.6}}
    assert distinct({"local": one, "common": one, "oracle": one}) == ["local"]
    assert distinct({"local": one, "common": one, "oracle": other}) == ["local", "common", "oracle"]
    assert distinct({"global": one, "local": one}) == ["local", "global"]
