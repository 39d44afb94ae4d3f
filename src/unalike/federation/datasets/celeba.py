"""CelebA (Liu et al., 2015; as LEAF has it, Caldas et al., 2018): photographs of celebrities.

Either LEAF's JSON files, whose rows are names of pictures, or the metadata they are made of:
identity_CelebA.txt    000001.jpg 2880
list_attr_celeba.txt   a count, 40 names, then 000001.jpg -1 1 -1 ...
with the pictures in img_align_celeba. As LEAF does it: people with fewer than five pictures are
left out, pictures are 84 x 84 pixels, and what is predicted is whether somebody smiles.
"""

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import ImageDataset, StoredDataset
from unalike.federation.readers import from_arrays
from unalike.federation.readers.images import read_pictures
from unalike.federation.readers.leaf import leaf_files, read_leaf

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_RAW = ("data/raw", "raw", "")


class CelebA(StoredDataset, ImageDataset):
    """200,288 photographs of 9,343 celebrities, smiling or not; the people are the clients."""

    title: ClassVar[str] = "celeba"
    files: ClassVar[str] = (
        "a folder celeba with img_align_celeba, identity_CelebA.txt and list_attr_celeba.txt of "
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, or LEAF's celeba/data folder"
    )

    size: int = Field(default=84, ge=8, le=1024, description="side to resize pictures to")
    attribute: str = Field(
        default="Smiling",
        description="which of the 40 attributes to predict; LEAF's files have one",
    )
    min_pictures: int = Field(
        default=5, ge=1, description="people with fewer pictures are left out; LEAF has done it"
    )
    people: int = Field(
        default=0, ge=0, description="how many people to keep, in the order of names; 0: all"
    )

    def load(self) -> "Examples":
        """From LEAF's JSON files, else from the metadata."""
        for place in self.subfolders("celeba", "leaf/celeba"):
            if files := leaf_files(place):
                rows = read_leaf(files)
                return self._examples(place, rows.x, rows.y.astype(np.int64), rows.user)
            for raw in _RAW:
                if (place / raw / "identity_CelebA.txt").is_file():
                    return self._examples(place, *self._metadata(place / raw))
        raise self.absent()

    def _metadata(self, raw: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(names of pictures, the attribute, who it is), of people with enough pictures."""
        lines = self.needed(raw / "list_attr_celeba.txt").read_text(encoding="utf-8").splitlines()
        names = lines[1].split()
        if self.attribute not in names:
            raise DataError(f"CelebA has no attribute '{self.attribute}': {', '.join(names)}.")
        column = 1 + names.index(self.attribute)
        cells = [line.split() for line in lines[2:] if line.strip()]
        has = {row[0]: int(int(row[column]) > 0) for row in cells}
        people = defaultdict(list)
        for line in (raw / "identity_CelebA.txt").read_text(encoding="utf-8").splitlines():
            if len(words := line.split()) == 2:
                people[words[1]].append(words[0])
        kept = [
            (p, who) for who, some in people.items() if len(some) >= self.min_pictures for p in some
        ]
        if not kept:
            raise DataError(f"nobody has {self.min_pictures} pictures; lower min_pictures.")
        pictures, who = map(np.array, zip(*kept, strict=True))
        return pictures, np.array([has[p] for p in pictures.tolist()]), who

    def _examples(self, place: Path, x: np.ndarray, y: np.ndarray, who: np.ndarray) -> "Examples":
        if self.people:
            kept = np.isin(who, np.unique(who)[: self.people])
            x, y, who = x[kept], y[kept], who[kept]
        folder = next(
            (f for raw in _RAW if (f := place / raw / "img_align_celeba").is_dir()),
            place / "data/raw/img_align_celeba",
        )
        paths = [self.needed(folder / name) for name in x.tolist()]
        return self.finish(
            from_arrays(
                read_pictures(paths, self.size),
                y,
                who,
                classes=2,
                class_names=("no", "yes"),
                layout="NHWC",
                name=self.title,
            )
        )
