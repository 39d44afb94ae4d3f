import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unalike import errors
from unalike.errors import DataError, RunWarning
from unalike.federation.columns import Column
from unalike.federation.readers import from_frame, read_table

TABLE = {
    "age": [30, 40, 50, 60],
    "job": ["smith", "baker", "smith", "clerk"],
    "member": [True, False, True, True],
    "town": ["b", "a", "b", "a"],
    "label": ["yes", "no", "no", "yes"],
}
FEATURES = [[30, 0, 0, 1, 1], [40, 1, 0, 0, 0], [50, 0, 0, 1, 1], [60, 0, 1, 0, 1]]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_numbers_stay_and_text_becomes_sorted_levels(library):
    examples = from_frame(library(TABLE), "label", "town")
    assert examples.x.tolist() == FEATURES
    assert examples.y.tolist() == [1, 0, 0, 1]
    assert examples.class_names == ("no", "yes")
    assert examples.groups.tolist() == [1, 0, 1, 0]
    assert examples.group_names == ("a", "b")
    assert examples.kind == "binary"


@pytest.mark.parametrize("dtype", ["category", "string", object])
def test_pandas_text_types_agree(dtype):
    frame = pd.DataFrame(TABLE).astype({"job": dtype, "label": dtype})
    assert from_frame(frame, "label", "town").x.tolist() == FEATURES


def test_row_order_does_not_change_the_columns():
    frame = pl.DataFrame(TABLE)
    assert from_frame(frame.reverse(), "label", "town").x.tolist() == FEATURES[::-1]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet"])
def test_files_give_what_the_frame_gives(tmp_path, suffix):
    frame, path = pl.DataFrame(TABLE), tmp_path / f"people.{suffix}"
    if suffix == "parquet":
        frame.write_parquet(path)
    else:
        text = frame.write_csv(separator="\t" if suffix == "tsv" else ",").encode()
        path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    examples = read_table(path, "label", "town")
    assert examples.x.tolist() == FEATURES
    assert examples.name == path.stem


@pytest.mark.parametrize("blank", ["", "NA", "?", "nan"])
def test_spellings_of_missing_do_not_turn_numbers_into_text(tmp_path, blank):
    path = tmp_path / "t.csv"
    path.write_text(f"a,label\n1,0\n{blank},1\n4,0\n9,1\n")
    found = read_table(path, missing="impute").x.flatten()
    assert found.isnan().tolist() == [False, True, False, False]
    assert found.nan_to_num().tolist() == [1, 0, 4, 9]


def test_gaps_in_numbers_stay_and_text_has_a_level_for_them():
    train = pl.DataFrame(
        {"a": [1.0, None, 5.0, 30.0], "b": ["x", None, "x", "y"], "label": [0, 1] * 2}
    )
    test = pl.DataFrame({"a": [None, 1e9], "b": [None, "z"], "label": [0, 1]})
    examples = from_frame(train, test=test, missing="impute")
    assert examples.x[:, 0].isnan().tolist() == [False, True, False, False]
    assert examples.test_x[:, 0].isnan().tolist() == [True, False]
    # Levels of both tables: (missing), x, y, z.
    assert examples.x[1, 1:].tolist() == [1, 0, 0, 0]
    assert examples.test_x[:, 1:].tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]


def test_what_is_learned_from_training_rows_waits_for_them():
    examples = from_frame(
        pl.DataFrame(TABLE), "label", "town", drop_first=True, normalise="pooled", missing="impute"
    )
    assert examples.x.tolist() == FEATURES
    assert examples.pending.columns == (
        Column("age"),
        Column("job", 3, "levels", ("baker", "clerk", "smith")),
        Column("member"),
    )
    assert examples.pending.drop_first
    assert examples.pending.scale == "pooled"


def test_nan_counts_as_missing():
    frame = pd.DataFrame({"a": [1.0, np.nan, 5.0], "label": [0, 1, 0]})
    assert from_frame(frame, missing="impute").x.isnan().flatten().tolist() == [False, True, False]


def test_dropping_columns():
    examples = from_frame(pl.DataFrame(TABLE), "label", drop=["town", "age"])
    assert examples.x.tolist() == [row[1:] for row in FEATURES]


def frame(**columns):
    return pl.DataFrame({**TABLE, **columns}, strict=False)


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (frame(), {"label": "lable"}, ["'lable'", "did you mean 'label'"]),
        (frame(), {"client": "city"}, ["'city'", "town"]),
        (frame(), {"drop": ["salary"]}, ["'salary'"]),
        (frame().head(0), {}, ["no rows"]),
        (frame().select("label"), {}, ["no feature"]),
        (frame(age=[1, None, None, 4]), {}, ["'age'", "2 of 4", "row 1", "data.missing = 'imp"]),
        (frame(age=[1, np.nan, 3, 4]), {}, ["'age'", "1 of 4", "row 1"]),
        (frame(job=["a", "b", None, "c"]), {}, ["'job'", "row 2"]),
        (frame(age=[None] * 4), {"missing": "impute"}, ["'age'", "empty"]),
        (frame(age=[1, 2, np.inf, 4]), {}, ["'age'", "infinite", "row 2"]),
        (frame(label=["yes", None, "no", "no"]), {}, ["labels", "row 1"]),
        (frame(town=["a", None, "b", "b"]), {"client": "town"}, ["clients", "row 1"]),
        (frame(age=[[1], [2], [3], [4]]), {}, ["'age'", "List"]),
        (frame(age=pd.date_range("2020-01-01", periods=4).to_list()), {}, ["'age'", "Datetime"]),
        (pd.DataFrame({"a": ["x", 1], "label": [0, 1]}), {}, ["'a'", "mixes"]),
        (pd.DataFrame([[1, 2, 0], [3, 4, 1]], columns=["a", "a", "label"]), {}, ["same name"]),
        (np.zeros((3, 2)), {}, ["ndarray", "from_arrays"]),
        (frame(), {"test": frame().drop("age")}, ["'age'"]),
        (frame(), {"test": frame(age=[1, 2, None, 4])}, ["'age'", "1 of 8", "test row 2 (counted"]),
        (frame(), {"test": frame(label=["no", "so", "no", "no"])}, ["'so'", "test row 1"]),
        (frame(), {"test": frame(age=list("abcd"))}, ["'age'", "test"]),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(table, options, words, one_sentence):
    with one_sentence(DataError, *words):
        from_frame(table, **{"label": "label", **options})


def test_a_column_of_names_is_not_spread_over_thousands_of_features(one_sentence):
    names = pl.DataFrame({"who": [f"p{n}" for n in range(1001)], "label": [0, 1] * 500 + [0]})
    with one_sentence(DataError, "'who'", "1001"):
        from_frame(names)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"a,label\n1,2\n1,2,3\n", ["t.csv", "line 3 has 3 fields", "header has 2"]),
        ("t.csv", b'a,label\n"1\n2",2\n1,2,3\n', ["line 4 has 3 fields"]),
        ("t.csv", b"a;label\n1;2\n", ["t.csv", "semicolons, not by commas", "separator = ';'"]),
        ("t.csv", b"a;b;label\n1,5;2;3\n2;1,5;3\n", ["t.csv", "semicolons, not by commas"]),
        ("t.tsv", b"a,label\n1,2\n", ["t.tsv", "commas, not by tabs"]),
        ("t.csv", b"", ["t.csv"]),
        ("t.parquet", b"not parquet", ["t.parquet"]),
        ("t.xlsx", b"", [".csv", ".parquet"]),
        ("t.csv.gz", b"\x1f\x8b\x08 broken", ["t.csv.gz"]),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, content, words, one_sentence):
    (tmp_path / name).write_bytes(content)
    with one_sentence(DataError, *words):
        read_table(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path, one_sentence):
    with one_sentence(DataError, "nothing.csv"):
        read_table(tmp_path / "nothing.csv")


def test_a_bad_row_is_named_by_its_line(tmp_path, one_sentence):
    path, test = tmp_path / "t.csv", tmp_path / "test.csv"
    path.write_text('\na,note,label\n1,"two\nlines",0\n,b,1\n')
    with one_sentence(DataError, f"1 of 2 rows, first in line 5 of '{path}'"):
        read_table(path)
    path.write_text("a,label\n1,no\n2,\n")
    with one_sentence(DataError, f"line 3 of '{path}' has none"):
        read_table(path)
    path.write_text("a,label\n1,no\n2,yes\n")
    test.write_text("a,label\n1,no\n2,yes\n3,maybe\n")
    with one_sentence(DataError, f"'maybe' in line 4 of '{test}'"):
        read_table(path, test_path=test)
    frame(age=[1, 2, None, 4]).write_parquet(tmp_path / "t.parquet")
    with one_sentence(DataError, "first in row 2 (counted from 0) of", "t.parquet"):
        read_table(tmp_path / "t.parquet")


@pytest.fixture(autouse=True)
def nothing_said_before():
    errors.warn_once.cache_clear()


def rows(**columns):
    """Two hundred rows with these columns."""
    return pl.DataFrame({"a": [7 * i % 200 for i in range(200)], "label": [0, 1] * 100, **columns})


AGES = [str(20 + i % 60) for i in range(200)]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"age": [*AGES[:5], "sixty", *AGES[6:]]}, ["'age'", "61 values", "'sixty' in row 5"]),
        ({"age": [f" {age}" for age in AGES]}, ["'age'", "' 20' in row 0"]),
        ({"id": [f"P{i}" for i in range(200)]}, ["'id'", "200 different", "data.drop = ['id']"]),
        ({"label": [20 + i % 60 for i in range(200)]}, ["'label'", "60 different", "data.label"]),
        ({"label": [f"c{i % 51}" for i in range(200)]}, ["'label'", "51 different", "class"]),
    ],
)
def test_a_table_that_looks_like_a_slip_is_read_with_a_warning(columns, words):
    with pytest.warns(RunWarning) as caught:
        assert len(from_frame(rows(**columns))) == 200
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.endswith(".")
    assert ". " not in message
    for word in words:
        assert word in message


def test_a_warning_comes_once():
    table = rows(id=[f"P{i}" for i in range(200)])
    with pytest.warns(RunWarning, match="'id'"):
        from_frame(table)
    from_frame(table)  # a second one would be an error here


def test_a_worker_leaves_warnings_to_the_process_that_started_it(monkeypatch):
    monkeypatch.setattr(errors, "parent_process", lambda: "a process")
    from_frame(rows(id=[f"P{i}" for i in range(200)]))


def test_the_warning_names_the_line_of_a_file(tmp_path):
    rows(age=[*AGES[:5], "sixty", *AGES[6:]]).write_csv(tmp_path / "t.csv")
    with pytest.warns(RunWarning, match=r"'sixty' in line 7 of .*t\.csv"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "columns",
    [
        {"age": AGES},  # text on purpose: every value is a number
        {"ward": [f"w{i % 90}" for i in range(200)]},
        {"mark": [["1", "2", "x"][i % 3] for i in range(200)]},
        {"label": [i % 40 for i in range(200)]},
        {"label": [100 + i % 20 for i in range(200)]},
        {"label": [f"c{i % 50}" for i in range(200)]},
    ],
)
def test_an_ordinary_table_is_read_without_a_warning(columns):
    assert len(from_frame(rows(**columns))) == 200  # warnings are errors here
