"""What MNIST and the sets made in its image share: one NPZ file or four idx files."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unalike.errors import DataError
from unalike.federation.datasets.base import ImageDataset, StoredDataset
from unalike.federation.readers import from_arrays, from_hub
from unalike.federation.readers.idx import read_mnist_files
from unalike.federation.readers.npz import load_npz

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_KEYS = ("x_train", "y_train", "x_test", "y_test")


class MnistLike(StoredDataset, ImageDataset):
    """60,000 and 10,000 grey images of 28 x 28 pixels in 10 classes."""

    npz: ClassVar[str]
    places: ClassVar[tuple[str, ...]]  # folders that usually hold the idx files
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    def load(self) -> "Examples":
        """From the NPZ file, else the idx files, else the hub."""
        return self.finish(self._published())

    def writers(self) -> np.ndarray | None:
        """The natural client of each training row, where the set has them."""
        return None

    def _published(self) -> "Examples":
        if found := self.find(self.npz):
            arrays = load_npz(found[0])
            if absent := [key for key in _KEYS if key not in arrays]:
                raise DataError(
                    f"'{found[0]}' has no key '{absent[0]}'; it has {', '.join(arrays)}."
                )
            x, y, test_x, test_y = (arrays[key] for key in _KEYS)
            return self._examples((x, y), (test_x, test_y))
        for place in self.subfolders(*self.places):
            if pairs := read_mnist_files(place):
                return self._examples(*pairs)
        if self.writers() is not None:  # known for these files, not for the hub's copy
            raise self.absent()
        splits = self.hub()
        return from_hub(splits["train"], test=splits["test"], name=self.title)

    def _examples(
        self, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
    ) -> "Examples":
        return from_arrays(
            *train,
            self.writers(),
            test=test,
            classes=10,
            class_names=self.class_names,
            layout="NHW",
            name=self.title,
        )
