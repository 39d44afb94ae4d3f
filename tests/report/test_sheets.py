"""Tables of a page: what they are sorted by and which rows belong to a method."""

import pytest

from unalike.compare.tables import DAGGER, DOUBLE, Entry, Grid
from unalike.report.html.sheets import sheet, sort_key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("83.38 ± 4.03", 83.38),
        ("90.75 ± 2.50*", 90.75),
        ("15.4 MB", 15.4e6),
        ("385 kB", 385e3),
        ("0 B", 0.0),
        ("12.8k", 12800.0),
        ("1,263", 1263.0),
        ("[-2.16, 16.91]", -2.16),
        ("+7.37", 7.37),
        ("−0.5", -0.5),
        ("<0.001", 0.001),
        ("1.2e-05", 1.2e-05),
        ("40 (selected)", 40.0),
        ("0/2/0", 0.0),
        ("—", None),
        ("", None),
        ("FedAvg", "FedAvg"),
        ("2nn", "2nn"),
    ],
)
def test_sort_keys(text, key):
    assert sort_key(text) == key


def test_a_column_with_words_is_sorted_as_words():
    rows = [[Entry("a †"), Entry("1"), Entry("2")], [Entry("b"), Entry("tie"), Entry("—")]]
    made = sheet(Grid("t", ["method", "result", "n"], rows, []), ["a"])
    assert made.numeric == [False, False, True]
    assert [box.key for box in made.lines[0].boxes] == ["a †", "1", 2.0]
    assert [line.method for line in made.lines] == ["a", ""]


def test_marked_rows_belong_to_their_method():
    marks = ("", f" {DAGGER}", f" {DOUBLE}", f" {DAGGER}{DOUBLE}")
    rows = [[Entry(f"FedAvg{m}"), Entry("1")] for m in marks] + [[Entry(f"own {DOUBLE}")] * 2]
    made = sheet(Grid("t", ["method", "n"], rows, []), ["FedAvg", f"own {DOUBLE}"])
    assert [line.method for line in made.lines] == ["FedAvg"] * 4 + [f"own {DOUBLE}"]
