"""What named datasets share: ``load``, a place to look for files, and scaling.

Nothing here or in the files of the datasets loads torch before ``load`` is called, so that settings
can be listed and checked at once.
"""

import os
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from unalike.errors import DataError, UnalikeError
from unalike.federation.columns import Learn, Normalise, Scale
from unalike.federation.readers.hub import load_splits
from unalike.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.federation.data import Examples
    from unalike.kinds import Kind

VARIABLE = "UNALIKE_DATA"
LEARN = (
    "regression: predict the number itself; auto: labels are classes, unless they are more than 20 "
    "different numbers with fractions"
)


class Dataset(Settings):
    """A dataset that can be named in a configuration."""

    title: ClassVar[str]

    @abstractmethod
    def load(self) -> "Examples":
        """The whole dataset, not yet partitioned."""

    def kind(self) -> "Kind":
        """What its targets are; classes of any number count as several."""
        return "multiclass"


class StoredDataset(Dataset):
    """A dataset that is read from a folder or, where it is there, from the hub."""

    files: ClassVar[str]  # what to put into the folder, as an error message says it
    hub_name: ClassVar[str] = ""

    folder: str = Field(
        default="",
        description=f"folder with the files; if empty, the environment variable {VARIABLE}, "
        "then the hub",
    )

    def find(self, *names: str) -> list[Path]:
        """The files of these names if all of them are in the folder, else nothing."""
        paths = [root / name for root in self._roots() for name in names]
        return paths if all(path.is_file() for path in paths) else []

    def subfolders(self, *names: str) -> Iterator[Path]:
        """The places of published layouts whose file names would not tell one set from another.

        The folder itself is one of them only if the setting, not the environment, names it.
        """
        for root in self._roots():
            for name in [*([""] if self.folder else []), *names]:
                if (root / name).is_dir():
                    yield root / name

    def needed(self, path: Path) -> Path:
        """A file or folder that must be there, once the others were found."""
        if path.exists():
            return path
        raise DataError(f"{self.title} needs '{path}', which is not there; get {self.files}.")

    def holding(self, marker: str, *names: str) -> Path:
        """The place of a published layout that holds a file or folder of this name."""
        places = list(self.subfolders(*names))
        for place in places:
            if (place / marker).exists():
                return place
        for place in places:
            if place.name in {Path(name).name for name in names}:
                self.needed(place / marker)
        raise self.absent()

    def hub(self) -> dict[str, Any]:
        """The splits on the hub; tried last, so failing here says what is needed."""
        if self.folder or not self.hub_name:
            raise self.absent()
        try:
            return load_splits(self.hub_name)
        except DataError as error:
            raise self.absent(f", and {str(error).rstrip('.').partition(';')[0]}") from None

    def absent(self, reason: str = "") -> DataError:
        """The error that says which files to put where."""
        if self.folder:
            return DataError(f"'{self.folder}' has no files of {self.title}; add {self.files}.")
        return DataError(
            f"{self.title} is not on this machine{reason}; get {self.files} and give its folder "
            f"in the setting 'folder' or the environment variable {VARIABLE}."
        )

    def _roots(self) -> list[Path]:
        place = self.folder or os.environ.get(VARIABLE, "")
        if not place:
            return []
        root = Path(place).expanduser()
        if not root.is_dir():
            named = "folder" if self.folder else VARIABLE
            raise DataError(f"{named} names '{root}', which is not a folder.")
        return [root]


class ImageDataset(Dataset):
    """A dataset of images in [0, 1]."""

    size: int = Field(
        default=0, ge=0, le=1024, description="side to resize images to; 0: as published"
    )
    normalise: bool = Field(
        default=False, description="scale each channel to mean 0 and variance 1 of training rows"
    )

    def finish(self, examples: "Examples") -> "Examples":
        """Resized as the settings say, and to be normalised once training rows are known."""
        if self.size and examples.x.shape[-1] != self.size:
            test_x = None if examples.test_x is None else self._resize(examples.test_x)
            examples = replace(examples, x=self._resize(examples.x), test_x=test_x)
        scale: Scale = "pooled" if self.normalise else "none"
        return replace(examples, pending=examples.pending._replace(scale=scale))

    def _resize(self, x: "Tensor") -> "Tensor":
        from torch.nn.functional import interpolate

        side = (self.size, self.size)
        return interpolate(x, side, mode="bilinear", antialias=True, align_corners=False)


class TableDataset(Dataset):
    """A dataset of table rows."""

    normalise: Normalise = Field(
        default="auto",
        description="columns to mean 0 and variance 1: over the training rows of all training "
        "clients (pooled), or over each client's own (client); auto: pooled for tables, none for "
        "images",
    )

    def finish(self, examples: "Examples") -> "Examples":
        """To be standardised once training rows are known; images only on request."""
        auto: Scale = "pooled" if examples.x.ndim == 2 else "none"
        scale = auto if self.normalise == "auto" else self.normalise
        return replace(examples, pending=examples.pending._replace(scale=scale))


class InferredDataset(TableDataset):
    """A dataset that anybody may have made: what is learned follows from its targets."""

    task: Learn = Field(default="auto", description=LEARN)

    def kind(self) -> "Kind":
        """As set, else as the data say; what cannot be read is complained of when it is used."""
        if self.task != "auto":
            return self.task
        try:
            return self.load().kind
        except UnalikeError:
            return super().kind()
