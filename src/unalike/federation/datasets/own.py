"""Your own data, named in a configuration: a table, an NPZ file or a folder of images."""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from unalike.errors import ConfigError, DataError, no_such
from unalike.federation.columns import Csv, Learn
from unalike.federation.datasets.base import LEARN, InferredDataset
from unalike.federation.readers import read_images, read_npz
from unalike.federation.readers.arrays import Layout
from unalike.federation.readers.frames import Missing, read_table

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_TABLE = {"label", "test_path", "drop", "missing", "normalise", "protected"}
_TABLE |= {"separator", "encoding", "na_values", "decimal", "split", "together", "task"}
_MEANING = {  # which settings a kind of file has a use for
    "table": _TABLE | {"client"},
    "npz": {"client", "layout", "normalise", "task"},
    "images": {"size", "normalise"},
}


class Files(InferredDataset):
    """Your own data: CSV, TSV, Parquet, NPZ, or a folder of images by class (and client)."""

    title: ClassVar[str] = "files"

    path: str = Field(min_length=1, description="the file, or the folder of images")
    label: str = Field(default="label", description="table: the column to predict")
    task: Learn = Field(default="auto", description=f"table, npz: {LEARN}")
    client: str = Field(default="", description="table: column, npz: key of each row's client")
    test_path: str = Field(default="", description="table: a second file, the global test set")
    drop: list[str] = Field(default=[], description="table: columns to leave out")
    missing: Missing = Field(
        default="error", description="table: refuse missing values or fill them (median, level)"
    )
    protected: list[str] = Field(
        default=[],
        description="table: columns with two values that no network sees and that adversaries "
        "guess",
    )
    split: str = Field(
        default="",
        description="table: column that says train, validation or test; rows with an empty cell "
        "are split at random",
    )
    together: str = Field(
        default="",
        description="table: rows with the same value in this column (such as a patient) stay on "
        "one side of the split",
    )
    separator: str = Field(
        default="",
        max_length=1,
        description="csv: the character between fields; if empty a comma, or a tab in .tsv files",
    )
    encoding: str = Field(default="utf-8", min_length=1, description="csv: such as latin-1")
    na_values: list[str] = Field(
        default=[],
        description="csv: what else means missing, besides NA, ?, NaN, null and an empty cell",
    )
    decimal: Literal[".", ","] = Field(default=".", description="csv: the decimal mark of numbers")
    layout: Layout = Field(default="auto", description="npz: where an image's channels are")
    size: int = Field(
        default=0, ge=0, le=1024, description="images: side to resize them to; 0: not resized"
    )

    def load(self) -> "Examples":
        """The examples; a setting that means nothing for this kind of file is refused."""
        path, kind = self._place(self.path), None if self.task == "auto" else self.task
        if path.is_dir():
            self._refuse_unused("images", path)
            return self.finish(read_images(path, size=self.size))
        if path.suffix.lower() == ".npz":
            self._refuse_unused("npz", path)
            return self.finish(read_npz(path, client=self.client, layout=self.layout, kind=kind))
        self._refuse_unused("table", path)
        examples = read_table(
            path,
            self.label,
            self.client,
            test_path=self._place(self.test_path) if self.test_path else "",
            drop=self.drop,
            missing=self.missing,
            protected=self.protected,
            split=self.split,
            together=self.together,
            kind=kind,
            csv=Csv(self.separator, self.encoding, tuple(self.na_values), self.decimal),
        )
        return self.finish(examples)

    def _place(self, path: str) -> Path:
        place = Path(path).expanduser()
        if not place.exists():
            raise DataError(_absent(place))
        return place

    def _refuse_unused(self, kind: str, path: Path) -> None:
        unused = self.model_fields_set - _MEANING[kind] - {"path"}
        if unused:
            raise ConfigError(f"'{min(unused)}' means nothing for '{path}' ({kind}); remove it.")


def _absent(place: Path) -> str:
    if place.is_absolute():
        return no_such("file or folder", place)
    here = f" in '{Path.cwd()}', where the command was started"
    return no_such("file or folder", place, "relative paths start there", here)
