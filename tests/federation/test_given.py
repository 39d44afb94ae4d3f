"""What data say about the split comes first: parts of their own, and rows that go together."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unalike.errors import DataError
from unalike.federation.build import federate
from unalike.federation.data import TEST, TRAIN, VALIDATION
from unalike.federation.datasets.own import Files
from unalike.federation.partition.iid import Iid
from unalike.federation.partition.natural import Natural
from unalike.federation.readers import from_frame, read_npz

ROWS = 120
RNG = np.random.default_rng(0)
TABLE = pl.DataFrame(
    {
        "a": RNG.normal(size=ROWS),
        "label": RNG.integers(0, 2, ROWS),
        "patient": np.arange(ROWS) // 4,
        "town": np.array(["north", "south"])[np.arange(ROWS) // 4 % 2],
        "set": np.array(["train", "Validation", "TEST"])[np.arange(ROWS) % 3],
    }
)


def test_a_split_column_is_the_split() -> None:
    examples = from_frame(TABLE, "label", "town", drop=["patient"], split="set")
    assert examples.x.shape[1] == 1
    made = federate(examples, Natural())
    assert made.part.tolist() == [TRAIN, VALIDATION, TEST] * (ROWS // 3)


def test_empty_cells_are_dealt_and_nothing_the_column_brings_is_taken_again() -> None:
    words = [None if i % 3 else "test" for i in range(ROWS)]
    table = TABLE.with_columns(set=pl.Series(words))
    examples = from_frame(table, "label", drop=["patient", "town"], split="set")
    made = federate(examples, Iid(clients=2))
    assert (made.part[::3] == TEST).all()
    rest = np.delete(made.part, slice(None, None, 3))
    assert set(rest) == {TRAIN, VALIDATION}
    assert np.mean(rest == VALIDATION) == pytest.approx(0.1, abs=0.03)


def test_a_word_that_is_no_part(one_sentence) -> None:
    table = TABLE.with_columns(set=pl.lit("holdout"))
    with one_sentence(DataError, "'set' says 'holdout'", "train, validation or test"):
        from_frame(table, "label", split="set")


@pytest.mark.parametrize("partitioner", [Natural(), Iid(clients=3)])
def test_a_patient_is_on_one_side(partitioner: Natural | Iid) -> None:
    examples = from_frame(TABLE, "label", "town", drop=["set"], together="patient")
    made = federate(examples, partitioner, validation=0.2, test=0.3)
    for patient in range(ROWS // 4):
        assert len(set(made.part[4 * patient : 4 * patient + 4])) == 1
    shares = np.bincount(made.part, minlength=3) / ROWS
    assert shares.tolist() == pytest.approx([0.5, 0.2, 0.3], abs=0.1)
    again = federate(examples, partitioner, validation=0.2, test=0.3)
    assert np.array_equal(again.part, made.part)
    other = federate(examples, partitioner, validation=0.2, test=0.3, seed=1)
    assert not np.array_equal(other.part, made.part)


def test_a_client_with_one_patient_trains() -> None:
    who = ["x"] * 10 + ["y"] * 10
    table = pl.DataFrame({"a": np.arange(20.0), "label": [0, 1] * 10, "who": who, "patient": who})
    examples = from_frame(table, "label", "who", together="patient")
    made = federate(examples, Natural(), test=0.4)
    assert (made.sizes(TRAIN) == 10).all()


def test_validation_rows_of_an_npz(tmp_path: Path, one_sentence) -> None:
    x, y = RNG.normal(size=(40, 3)), np.arange(40) % 2
    arrays = {"x_train": x[:30], "y_train": y[:30], "x_val": x[30:], "y_val": y[30:]}
    np.savez(tmp_path / "a.npz", **arrays, site=np.arange(30) % 2)
    with one_sentence(DataError, "validation rows but does not say which client", "'site_val'"):
        read_npz(tmp_path / "a.npz", client="site")
    np.savez(tmp_path / "a.npz", **arrays, site=np.arange(30) % 2, site_val=np.arange(10) % 2)
    made = federate(read_npz(tmp_path / "a.npz", client="site"), Natural())
    assert (made.part[30:] == VALIDATION).all()
    assert set(made.part[:30]) == {TRAIN, TEST}


def test_separator_encoding_and_words_for_missing(tmp_path: Path, one_sentence) -> None:
    text = "Größe;Art;label\n1.5;süß;a\n-999;sauer;b\n2.5;süß;a\n3.5;sauer;b\n"
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    path = str(tmp_path / "t.csv")
    with one_sentence(DataError, "not written in UTF-8", "latin-1"):
        Files(path=path, separator=";").load()
    how = {"separator": ";", "encoding": "latin-1", "na_values": ["-999"], "missing": "impute"}
    examples = Files(path=path, **how).load()
    assert examples.pending.columns[0].name == "Größe"
    assert examples.pending.columns[1].levels == ("sauer", "süß")
    assert examples.x[:, 0].isnan().tolist() == [False, True, False, False]
    with one_sentence(DataError, "no encoding 'klingon'"):
        Files(path=path, encoding="klingon").load()


def test_decimal_commas(tmp_path: Path, one_sentence) -> None:
    path = tmp_path / "t.csv"
    path.write_text("crp;label\n1,5;a\n-0,25;b\n2;a\n")
    examples = Files(path=str(path), separator=";", decimal=",").load()
    assert examples.x[:, 0].tolist() == [1.5, -0.25, 2.0]
    with one_sentence(DataError, "commas cannot both separate the fields", "data.separator"):
        Files(path=str(path), decimal=",").load()
