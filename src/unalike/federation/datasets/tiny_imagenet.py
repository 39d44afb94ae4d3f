"""Tiny ImageNet (Stanford CS231N, 2015): 200 of ImageNet's classes in small pictures.

tiny-imagenet-200/wnids.txt, words.txt     the classes, and what they are called
.../train/WNID/images/WNID_N.JPEG          500 pictures of each class
.../val/images/val_N.JPEG, val_annotations.txt    50 of each class, the test set here

The pictures of test/ have no published labels and are not read.
"""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import ImageDataset, StoredDataset
from unalike.federation.readers import from_arrays
from unalike.federation.readers.images import image_files, read_pictures

if TYPE_CHECKING:
    from unalike.federation.data import Examples


class TinyImageNet(StoredDataset, ImageDataset):
    """100,000 photographs of 64 x 64 pixels in 200 classes."""

    title: ClassVar[str] = "tiny_imagenet"
    files: ClassVar[str] = (
        "the folder tiny-imagenet-200 of http://cs231n.stanford.edu/tiny-imagenet-200.zip"
    )

    per_class: int = Field(
        default=0,
        ge=0,
        description="how many of each class's first training pictures to keep; 0: all",
    )

    def load(self) -> "Examples":
        """From the folder as it comes out of the archive."""
        place = self.holding("wnids.txt", "tiny-imagenet-200")
        names = (place / "wnids.txt").read_text(encoding="utf-8").split()
        train = [path for name in names for path in self._of_class(place, name)]
        test = self._annotated(self.needed(place / "val" / "val_annotations.txt"))
        codes = {name: code for code, name in enumerate(names)}
        examples = from_arrays(
            read_pictures([path for path, _ in train], 64),
            [codes[name] for _, name in train],
            test=(
                read_pictures([path for path, _ in test], 64),
                [codes[name] for _, name in test],
            ),
            classes=len(names),
            class_names=self._called(place / "words.txt", names),
            layout="NHWC",
            name=self.title,
        )
        return self.finish(examples)

    def _of_class(self, place: Path, name: str) -> list[tuple[Path, str]]:
        found = image_files(self.needed(place / "train" / name / "images"))
        if not found:
            raise DataError(f"'{place / 'train' / name / 'images'}' holds no pictures.")
        return [(path, name) for path in found[: self.per_class or None]]

    def _annotated(self, notes: Path) -> list[tuple[Path, str]]:
        """The pictures of val/images with their classes: name, class, four numbers of a box."""
        rows = [line.split("\t") for line in notes.read_text(encoding="utf-8").splitlines()]
        return [(self.needed(notes.parent / "images" / row[0]), row[1]) for row in rows if row[1:]]

    def _called(self, words: Path, names: list[str]) -> tuple[str, ...]:
        """The first word for each class, or its number where there is no list."""
        if not words.is_file():
            return tuple(names)
        lines = (line.split("\t") for line in words.read_text(encoding="utf-8").splitlines())
        found = {line[0]: line[1].partition(",")[0] for line in lines if line[1:]}
        said = [found.get(name, name) for name in names]
        return tuple(
            w if said.count(w) == 1 else f"{w} {n}" for w, n in zip(said, names, strict=True)
        )
