"""Heart disease (Janosi, Steinbrunn, Pfisterer and Detrano, 1988; UCI, CC BY 4.0): 4 hospitals.

The columns slope, ca and thal are left out, being mostly missing outside Cleveland. What remains
is 8 numbers (age, sex, trestbps, chol, fbs, thalach, exang, oldpeak), and chest pain (cp, 4 levels)
and the electrocardiogram (restecg, 3 levels) one-hot: 15 inputs.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.columns import Column, Pending
from unalike.federation.datasets.base import StoredDataset, TableDataset
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.table_file import table_file

if TYPE_CHECKING:
    import polars as pl

    from unalike.federation.data import Examples

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
NUMBERS = ("age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak")
LEVELS = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2)}
_LEFT_OUT = ("slope", "ca", "thal")
_COLUMNS = ["age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak"]
_COLUMNS += [*_LEFT_OUT, "num"]


class Heart(StoredDataset, TableDataset):
    """920 patients of four hospitals, heart disease or not; the hospitals are the clients."""

    title: ClassVar[str] = "heart"
    files: ClassVar[str] = (
        "heart_disease.parquet, or UCI's processed.cleveland.data, processed.hungarian.data, "
        "processed.switzerland.data and processed.va.data,"
    )

    missing: Literal["impute", "drop"] = Field(
        default="impute",
        description="'impute': median of the training rows (most frequent level for restecg), a "
        "cholesterol or blood pressure of 0 counting as missing; 'drop': only complete rows (740)",
    )

    def load(self) -> "Examples":
        """Label 1 is any degree of disease (num > 0)."""
        import polars as pl

        table = self._table().select("hospital", *NUMBERS, *LEVELS, "num")
        if self.missing == "drop":
            table = table.drop_nulls()
        else:
            measured = pl.col("chol", "trestbps")
            table = table.with_columns(pl.when(measured != 0).then(measured).name.keep())
        numbers = table.select(NUMBERS).cast(pl.Float64).to_numpy()
        one_hot = [_one_hot(table[c].cast(pl.Float64), levels) for c, levels in LEVELS.items()]
        levels = [
            Column(c, len(levels), "fixed", tuple(map(str, levels))) for c, levels in LEVELS.items()
        ]
        return self.finish(
            from_arrays(
                np.concatenate([numbers, *one_hot], axis=1),
                (table["num"] > 0).cast(int).to_numpy(),
                table["hospital"].to_numpy(),
                class_names=("healthy", "disease"),
                name=self.title,
                pending=Pending((*map(Column, NUMBERS), *levels)),
            )
        )

    def _table(self) -> "pl.DataFrame":
        import polars as pl

        if found := self.find("heart_disease.parquet"):
            table = table_file(found[0])
            if absent := {"hospital", *_COLUMNS} - set(table.columns):
                raise DataError(f"'{found[0]}' has no column '{min(absent)}'.")
            return table
        for place in self.subfolders("heart", "heart_disease", "heart+disease"):
            paths = [place / f"processed.{hospital}.data" for hospital in HOSPITALS]
            if all(path.is_file() for path in paths):
                parts = [
                    pl.read_csv(
                        path,
                        has_header=False,
                        new_columns=_COLUMNS,
                        null_values="?",
                        schema_overrides=[pl.Float64] * len(_COLUMNS),
                    ).with_columns(pl.lit(hospital).alias("hospital"))
                    for hospital, path in zip(HOSPITALS, paths, strict=True)
                ]
                return pl.concat(parts)
        raise self.absent()


def _one_hot(column: "pl.Series", levels: tuple[int, ...]) -> np.ndarray:
    """A column for each level; all of them are NaN where the value is missing."""
    values = column.to_numpy()[:, None]
    return np.where(np.isnan(values), np.nan, values == np.array(levels))
