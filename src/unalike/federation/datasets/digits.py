"""Digits: 1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn."""

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
        from sklearn.datasets import load_digits

        bunch = load_digits()
        x = (bunch.images / 16).astype(np.float32)
        return self.finish(from_arrays(x, bunch.target, layout="NHW", name=self.title))
