"""Digits: 1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn."""

from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unalike.federation.datasets.base import ImageDataset
from unalike.federation.readers import from_arrays

if TYPE_CHECKING:
    from unalike.federation.data import Examples


class Digits(ImageDataset):
    """1,797 real 8 x 8 digits, 10 classes; needs no file and no network."""

    title: ClassVar[str] = "digits"

    def load(self) -> "Examples":
        """Images [1, 8, 8]; pixel values of 0 to 16 are scaled to [0, 1]."""
        x, y = _read()
        return self.finish(from_arrays(x.copy(), y.copy(), layout="NHW", name=self.title))


@cache  # a text file, which takes longer to read than a small run to train
def _read() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.images / 16).astype(np.float32), bunch.target
