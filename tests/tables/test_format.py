"""One way to write a number."""

import math

import pytest

from unalike.errors import ConfigError
from unalike.tables.format import (
    count,
    decimal,
    interval,
    number,
    p_value,
    probability,
    signed,
    size,
    whole,
    with_unit,
)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1 kB"),
        (1000, "1 kB"),
        (384_900, "385 kB"),
        (3_855_000, "3.85 MB"),
        (7e13, "70 TB"),
        (5e15, "5 PB"),
        (5e18, "5,000 PB"),
        (None, "—"),
    ],
)
def test_bytes(amount, text):
    assert size(amount) == text


def test_counts():
    assert [count(x) for x in (5, 25_200, 1e6, 999.6)] == ["5", "25.2k", "1M", "1k"]
    assert [whole(x) for x in (5, 1260, 1e6, None)] == ["5", "1,260", "1,000,000", "—"]


def test_shares_are_per_cent_and_errors_have_decimals():
    assert number(0.98765, "accuracy") == "98.77"
    assert number(0.98765, "loss") == "0.9877"
    assert number(0.98765, "ece") == "0.988"
    assert number(1.08, "accuracy") == "108.00"  # differences are not cut
    assert number(0.1234, "accuracy", "worst10") == "12.34"
    assert number(0.1234, "accuracy", "gini") == "0.123"
    assert (with_unit(0.5, "accuracy"), with_unit(0.5, "loss")) == ("50.00 %", "0.5000")


@pytest.mark.parametrize("value", [None, math.nan])
def test_what_is_not_defined_is_a_dash(value):
    said = [number(value, "loss"), with_unit(value, "accuracy"), signed(value, "accuracy")]
    said += [decimal(value, 2), size(value), count(value), whole(value)]
    said += [interval(value, 0.5, "loss"), interval(0.5, value, "loss")]
    assert set(said) == {"—"}
    assert probability(None) == "—"


def test_differences_have_a_sign_and_zero_is_not_negative():
    assert [signed(d, "accuracy") for d in (0.0123, -0.0123, -1e-9, 0)] == [
        "+1.23",
        "-1.23",
        "+0.00",
        "+0.00",
    ]
    assert decimal(-1e-9, 2) == "0.00"
    assert interval(-0.0044, 0.01, "accuracy") == "[-0.44, 1.00]"


def test_p_values():
    assert [probability(p) for p in (0.0004, 0.05, 1.0)] == ["<0.001", "0.050", "1.000"]
    assert [p_value(p) for p in (0.0004, 0.05, 1.0)] == ["p < 0.001", "p = 0.050", "p = 1.000"]


def test_a_metric_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match="unknown metric 'acc'"):
        number(0.5, "acc")
