"""The tables of a partition's skew."""

import numpy as np

from unalike.federation.skew import measure
from unalike.report.skew import MEASURES, cell, short_table, skew_table

COUNTS = np.array([[10, 0, 0], [5, 5, 10], [0, 30, 20]])


def texts(table):
    return [[c.text for c in row] for row in table.rows]


def test_every_measure_is_explained():
    skew = {**measure(COUNTS).as_dict(), "mmd": 0.25, "apart": 2.0}
    assert set(skew) == set(MEASURES)
    table = skew_table({"value": skew}, "Skew")
    assert table.columns == ["measure", "value", "meaning"]
    assert table.numeric == [False, True, False]
    found = texts(table)
    # pooled 15, 35, 30 of 80; L1: 1.625, .375, .625 + ... by size 10, 20, 50
    pooled = COUNTS.sum(0) / 80
    each = np.abs(COUNTS / COUNTS.sum(1, keepdims=True) - pooled).sum(1)
    emd = float(each @ COUNTS.sum(1) / 80)
    assert ["EMD", f"{emd:.3f}", "L1 distance from the pooled labels, by size"] in found
    assert ["clients", "3", "number of clients"] in found


def test_partitions_stand_side_by_side_whatever_each_of_them_has():
    one, other = {"clients": 3.0, "emd": 0.25}, {"clients": 1200.0, "emd": None, "novel": 0.5}
    table = skew_table({"a": one, "b": other})
    assert table.columns == ["measure", "a", "b", "meaning"]
    assert [row[:3] for row in texts(table)] == [
        ["clients", "3", "1,200"],
        ["EMD", "0.250", "—"],
        ["novel", "—", "0.500"],
    ]
    assert table.rows[2][3].text == ""


def test_the_short_table_has_the_same_texts():
    skew = {**measure(COUNTS).as_dict(), "mmd": 0.25, "apart": 2.0}
    (row,) = texts(short_table({"iid": skew}, "T"))
    assert row[0] == "iid"
    long = {r[0]: r[1] for r in texts(skew_table({"iid": skew}))}
    columns = short_table({"iid": skew}).columns
    assert row[1:] == [long[name] for name in columns[1:]]
    assert cell("emd", skew["emd"]).value == skew["emd"]
