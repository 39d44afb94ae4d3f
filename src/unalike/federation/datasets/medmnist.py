"""MedMNIST (Yang et al., 2023): small medical images, read from the published NPZ files."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import ImageDataset, StoredDataset
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.npz import load_npz

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_KEYS = [f"{part}_{what}" for part in ("train", "val", "test") for what in ("images", "labels")]


class MedMnist(StoredDataset, ImageDataset):
    """Medical images of 28 x 28 pixels or more: dermamnist, organcmnist, pathmnist, ...

    Training and validation images are joined, since every client makes its own validation set.
    """

    title: ClassVar[str] = "medmnist"
    files: ClassVar[str] = "the published file (dermamnist.npz, organcmnist_64.npz, ...)"

    flag: str = Field(
        default="dermamnist",
        description="which of the sets, by the name of its file (without .npz)",
    )

    def load(self) -> "Examples":
        """Images [C, H, W] with one label each; the published test set is the global test set."""
        found = self.find(f"{self.flag}.npz") or self.find(f"medmnist/{self.flag}.npz")
        if not found:
            raise self.absent(f" as {self.flag}.npz")
        arrays = load_npz(found[0])
        if absent := [key for key in _KEYS if key not in arrays]:
            raise DataError(f"'{found[0]}' has no key '{absent[0]}': it has {', '.join(arrays)}.")
        images, labels = arrays["train_images"], arrays["train_labels"]
        if labels.reshape(len(labels), -1).shape[1] != 1:
            raise DataError(
                f"{self.flag} gives an image several labels at once; choose a set with one."
            )
        if images.ndim == 4 and images.shape[3] != 3:
            raise DataError(f"{self.flag} has volumes, not images; choose a two-dimensional set.")
        return self.finish(
            from_arrays(
                np.concatenate([images, arrays["val_images"]]),
                np.concatenate([labels, arrays["val_labels"]]),
                test=(arrays["test_images"], arrays["test_labels"]),
                layout="NHWC" if images.ndim == 4 else "NHW",
                name=self.flag,
            )
        )
