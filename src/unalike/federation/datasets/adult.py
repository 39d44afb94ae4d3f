"""Adult (Becker and Kohavi, 1996; UCI, CC BY 4.0): income above 50,000 dollars or not."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from unalike.errors import DataError, unknown
from unalike.federation.datasets.base import StoredDataset, TableDataset
from unalike.federation.readers.frames import from_frame
from unalike.federation.readers.table_file import table_file

if TYPE_CHECKING:
    import polars as pl

    from unalike.federation.data import Examples

COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]


class Adult(StoredDataset, TableDataset):
    """48,842 people of the 1994 US census, income above 50K or not; education can be the client.

    The protocol "lg-fedavg" (Liang et al., 2020) keeps the training rows of White and Black people
    (30,940), leaves out race, sex and fnlwgt and the first level of each text column, and has no
    test set of its own.
    """

    title: ClassVar[str] = "adult"
    files: ClassVar[str] = "adult.parquet, or UCI's adult.data and adult.test,"
    hub_name: ClassVar[str] = "scikit-learn/adult-census-income"

    clients: str = Field(default="", description="column that names the client: education_num, ...")
    drop: list[str] = Field(
        default=["fnlwgt"], description="columns to leave out; fnlwgt is a sampling weight"
    )
    protocol: Literal["full", "lg-fedavg"] = Field(
        default="full", description="which rows and columns: all, or those of LG-FedAvg"
    )

    protected: list[Literal["race", "sex"]] = Field(
        default=[],
        description="columns that no network sees and that adversaries guess; race only with "
        "protocol lg-fedavg, where it has two values",
    )

    def load(self) -> "Examples":
        """Text columns one-hot, a missing one as a level of its own; label 1 is above 50K."""
        import polars as pl

        table = self._table()
        lg = self.protocol == "lg-fedavg"
        drop = [*self.drop, *(["race", "sex", "fnlwgt"] if lg else [])]
        if "race" in self.protected and not lg:
            raise DataError(
                "'data.protected' has race, which has five values in all of Adult; set "
                "data.protocol = 'lg-fedavg', which keeps two of them, or protect sex alone."
            )
        drop = [column for column in drop if column not in self.protected]
        if self.clients:
            if self.clients not in COLUMNS[:-1]:
                raise unknown("column", self.clients, COLUMNS[:-1])
            if self.clients.startswith("education"):  # the same thing in words and as a number
                drop += ["education", "education_num"]
        if lg:
            table = table.filter(pl.col("race").is_in(["White", "Black"]))
        train = table.filter(pl.col("split") == "train").drop("split")
        test = table.filter(pl.col("split") == "test").drop("split")
        return self.finish(
            from_frame(
                train,
                "income",
                self.clients,
                test=None if lg or not len(test) else test,
                drop=sorted(set(drop) - {self.clients}),
                missing="impute",
                drop_first=lg,
                protected=self.protected,
                name=self.title,
            )
        )

    def _table(self) -> "pl.DataFrame":
        import polars as pl

        if found := self.find("adult.parquet"):
            table = table_file(found[0])
            if set(table.columns) != {"split", *COLUMNS}:
                raise DataError(f"'{found[0]}' must have the columns split, {', '.join(COLUMNS)}.")
            return table
        for place in self.subfolders("adult"):
            paths = {"train": place / "adult.data", "test": place / "adult.test"}
            if all(path.is_file() for path in paths.values()):
                parts = [_uci(path, split) for split, path in paths.items()]
                return pl.concat(parts, how="vertical_relaxed")
        frame = self.hub()["train"].to_polars()
        frame = frame.rename({name: name.replace(".", "_") for name in frame.columns})
        text = pl.col(pl.String)
        frame = frame.with_columns(pl.when(text != "?").then(text).name.keep())
        selected: pl.DataFrame = frame.select(pl.lit("train").alias("split"), *COLUMNS)
        return selected


def _uci(path: Path, split: str) -> "pl.DataFrame":
    """UCI's files: blanks after commas, a comment on top of the test set, dots after its labels."""
    import polars as pl

    lines = [line.replace(", ", ",").rstrip(". ") for line in path.read_text().splitlines()]
    body = "\n".join(line for line in lines if line and not line.startswith("|"))
    table = pl.read_csv(
        io.StringIO(body), has_header=False, null_values="?", infer_schema_length=None
    )
    if table.width != len(COLUMNS):
        raise DataError(f"'{path}' must have {len(COLUMNS)} columns, got {table.width}.")
    table.columns = COLUMNS
    return table.select(pl.lit(split).alias("split"), *COLUMNS)
