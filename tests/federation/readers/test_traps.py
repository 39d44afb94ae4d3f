"""Tables that can be read, but hardly as they were meant, are read with a warning."""

import numpy as np
import polars as pl
import pytest

from unalike.errors import RunWarning, warn_once
from unalike.federation.readers import from_frame

RNG = np.random.default_rng(0)
TABLE = pl.DataFrame({"a": RNG.normal(size=40), "b": RNG.normal(size=40), "label": [0, 1] * 20})


@pytest.fixture(autouse=True)
def _fresh() -> None:
    warn_once.cache_clear()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"site": pl.lit(7)}, "column 'site' is the same in all 40 rows"),
        ({"id": pl.Series(range(100, 140))}, "column 'id' counts the rows"),
        ({"copy": pl.col("a")}, "columns 'a' and 'copy' are the same"),
        (
            {"born": pl.Series([f"{1950 + i}-03-01" for i in range(40)])},
            "'born' holds dates as text",
        ),
        ({"born": pl.Series([f"1.3.{1950 + i}" for i in range(40)])}, "'born' holds dates as text"),
        (
            {"label": pl.Series(["x", "y"] * 19 + ["z", "rare"])},
            "the class 'rare' and 1 more occurs in a single row",
        ),
        ({"cost": pl.Series([f"${i},000" for i in range(40)])}, "numbers with something around"),
        (
            {"crp": pl.Series([f"{i},{i % 7}" for i in range(40)])},
            "'crp' holds numbers with a decimal comma, such as '0,0'",
        ),
        (
            {"sex": pl.Series(["F", "m", " F", "M"] * 10)},
            "the texts ' F' and 'F' in column 'sex' differ only in capitals or spaces",
        ),
        ({"dose": pl.Series([f"{i % 9} mg" for i in range(40)])}, "such as '0 mg', and each"),
        (
            {"dose": pl.Series([str(i) if i % 4 else "-" for i in range(40)])},
            r"because of '-' among its numbers; .* set data.na_values = \['-'\]",
        ),
        (
            {"label": pl.Series(["sick", "Sick ", "well", "well"] * 10)},
            "the classes 'Sick ' and 'sick' differ only in capitals or spaces",
        ),
    ],
)
def test_a_trap_is_said(columns: dict, words: str) -> None:
    with pytest.warns(RunWarning, match=words):
        from_frame(TABLE.with_columns(**columns))


def test_an_ordinary_table_is_read_in_silence() -> None:
    table = TABLE.with_columns(
        year=pl.Series([1990 + i % 9 for i in range(40)]),
        flat=pl.Series([0.0] * 39 + [1.0]),
        town=pl.Series(["Ulm", "Bonn"] * 20),
        code=pl.Series(["12.3.x", "7.1.y"] * 20),
        grade=pl.Series([f"{i % 4}a" for i in range(40)]),
        dose=pl.Series(["0", "1", "2", "many"] * 10),
    )
    from_frame(table)


@pytest.mark.parametrize("name", ["patient", "Patient_ID", "subject no"])
@pytest.mark.parametrize("dtype", [pl.String, pl.Int64])
def test_a_patient_with_several_rows_is_said(name: str, dtype: type[pl.DataType]) -> None:
    ids = pl.Series(name, [7 * i % 60 for i in range(160)]).cast(dtype)
    table = pl.concat([TABLE] * 4).with_columns(ids)
    with pytest.warns(RunWarning, match=f"both sides .* set data.together = '{name}'"):
        from_frame(table)
    from_frame(table, together=name)  # in silence
