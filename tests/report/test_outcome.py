"""What the tests of a run came to."""

from unalike.report.outcome import left_out


def test_clients_without_a_value_are_counted_by_metric():
    spreads = {
        "accuracy": {"clients": 20, "undefined": 0},
        "auroc": {"clients": 10, "undefined": 10},
        "f1": {"clients": 19, "undefined": 1},
        "precision": {"clients": 19, "undefined": 1},
    }
    assert left_out(spreads, "local") == [
        "F1, precision on clients' own test data: 19 of 20 clients have a value, the others enter "
        "no mean.",
        "AUROC on clients' own test data: 10 of 20 clients have a value, the others enter no mean.",
    ]
    assert left_out(spreads, "global") == []  # one set of rows
    assert left_out({"accuracy": {"clients": 4, "undefined": 0}}, "local") == []
