"""Labels that are numbers: when they are taken as such, and what is said of slips."""

import re
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from unalike.errors import DataError
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.frames import read_table
from unalike.federation.readers.targets import looks_measured, read_measured

FRACTIONS = np.arange(40) / 7
X = np.zeros((40, 2))


@pytest.mark.parametrize(
    ("values", "unmistakable"),
    [
        (FRACTIONS, True),
        (FRACTIONS.astype(np.float32)[:, None], True),
        (torch.from_numpy(FRACTIONS), True),
        (np.arange(40), False),  # whole numbers may be classes
        (np.arange(40.0), False),
        (np.repeat([1.0, 1.3, 1.7, 2.0], 10), False),  # marks
        (np.array(["1.5"] * 40), False),
        (np.ones((40, 3)), False),
    ],
)
def test_only_many_fractions_are_unmistakable(values: Any, unmistakable: bool) -> None:
    assert looks_measured(values) == unmistakable


def test_numbers_stay_numbers() -> None:
    examples = from_arrays(X, FRACTIONS)
    assert examples.kind == "regression"
    assert examples.y.tolist() == FRACTIONS.tolist()
    assert from_arrays(X, np.arange(40), kind="regression").y.tolist() == list(range(40))


def test_ranges_hold_equally_many_rows() -> None:
    found = read_measured(np.random.default_rng(0).permutation(200) * 1.5)
    assert np.bincount(found.ranges).tolist() == [20] * 10
    assert found.names[0] == "0 to 28.5"
    assert (np.diff(found.ranges[np.argsort(found.values)]) >= 0).all()


def test_equal_numbers_are_in_one_range() -> None:
    found = read_measured(np.array([0.0] * 70 + [1.0] * 20 + [2.0] * 10))
    assert np.bincount(found.ranges).tolist() == [70, 20, 10]
    assert found.names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        ([1.5, np.nan], "must not be missing or infinite: row 1 (counted from 0) has nan."),
        ([1.5, np.inf], "has inf."),
        ([1.5, None], "the targets must not be missing: row 1 (counted from 0) has none."),
        (["1.5", "high"], "must be numbers, got 'high' in row 1 (counted from 0)."),
        ([2.5, 2.5], "all 2 values of the target are 2.5, so there is nothing to learn."),
        ([[1.0, 2.0], [3.0, 4.0]], "must be one number for each row."),
    ],
)
def test_one_sentence_for_each_mistake(y: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=re.escape(sentence)):
        from_arrays(np.zeros((2, 1)), y, kind="regression")


def test_a_file_says_the_line(tmp_path: Any) -> None:
    path = tmp_path / "prices.csv"
    table = pl.DataFrame({"area": np.arange(30.0), "price": FRACTIONS[:30]})
    table.write_csv(path)
    assert read_table(path, "price").kind == "regression"
    path.write_text(path.read_text().replace(f"\n7.0,{FRACTIONS[7]}\n", "\n7.0,\n"))
    with pytest.raises(DataError, match=r"line 9 of .*prices.csv' has nan"):
        read_table(path, "price")


def test_whole_numbers_are_told_of_the_setting(tmp_path: Any) -> None:
    path = tmp_path / "ages.csv"
    pl.DataFrame({"x": np.arange(30.0) ** 2, "age": np.arange(30) + 20}).write_csv(path)
    with pytest.raises(DataError, match=r"set data.task = 'regression'"):
        read_table(path, "age")
    assert read_table(path, "age", kind="regression").classes == 3
