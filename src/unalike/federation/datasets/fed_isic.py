"""Fed-ISIC2019 (du Terrail et al., FLamby, 2022): skin lesions from six centres.

train_test_split    a table: image, ..., target (0 to 7), center (0 to 5), fold (train or test)
ISIC_2019_Training_Input_preprocessed/ISIC_0000000.jpg    with the shorter side at 224 pixels

Both as FLamby's scripts make them. Pictures are cut to their middle, 200 x 200 pixels, as FLamby
does for testing; its split of each centre is kept.
"""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import ImageDataset, StoredDataset
from unalike.federation.readers import from_arrays
from unalike.federation.readers.images import read_pictures

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_CLASSES = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
_PICTURES = "ISIC_2019_Training_Input_preprocessed"
_COLUMNS = ("image", "target", "center", "fold")
_CUT = 200


class FedIsic(StoredDataset, ImageDataset):
    """23,247 pictures of skin lesions in 8 classes; six centres are the clients."""

    title: ClassVar[str] = "fed_isic"
    files: ClassVar[str] = (
        f"a folder fed_isic2019 with {_PICTURES} and train_test_split, as "
        "https://github.com/owkin/FLamby makes them"
    )

    size: int = Field(default=_CUT, ge=8, le=1024, description="side to resize the cut pictures to")

    def load(self) -> "Examples":
        """From FLamby's folder, with its own test rows in every centre."""
        place = self.holding("train_test_split", "fed_isic2019")
        rows = self._split(place / "train_test_split")
        folder = self.needed(place / _PICTURES)
        paths = [self.needed(folder / f"{image}.jpg") for image in rows["image"]]
        examples = from_arrays(
            read_pictures(paths, self.size, cut=_CUT),
            np.array(rows["target"], np.int64),
            [f"centre {c}" for c in rows["center"]],
            classes=len(_CLASSES),
            class_names=_CLASSES,
            layout="NHWC",
            name=self.title,
        )
        return self.finish(self._parted(examples, rows["fold"]))

    def _split(self, path: Path) -> dict[str, list[str]]:
        """Columns of the table, which is comma-separated whatever its name."""
        lines = path.read_text(encoding="utf-8").splitlines()
        names = lines[0].split(",") if lines else []
        if absent := [c for c in _COLUMNS if c not in names]:
            raise DataError(f"'{path}' has no column '{absent[0]}'; get it from FLamby again.")
        cells = list(zip(*(line.split(",") for line in lines[1:] if line), strict=True))
        return {c: list(cells[names.index(c)]) for c in _COLUMNS}

    def _parted(self, examples: "Examples", fold: list[str]) -> "Examples":
        from dataclasses import replace

        from unalike.federation.data import FREE, TEST

        # Validation rows are taken from those for training.
        part = np.where(np.array(fold) == "test", TEST, FREE).astype(np.int8)
        return replace(examples, part=part)
