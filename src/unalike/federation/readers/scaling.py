"""Mean 0 and variance 1 for table columns and image channels, fitted on the training rows."""

from dataclasses import replace
from typing import TYPE_CHECKING

from unalike.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.federation.data import Examples


def standardise(examples: "Examples") -> "Examples":
    """Table columns or image channels with mean 0 and variance 1 over the training set.

    Columns that hold only 0 and 1 stay as they are, columns that never vary become 0. The
    statistics are those of all rows outside the dataset's own test set.
    """
    import torch

    x = examples.x
    if x.ndim == 2:
        mean, spread = column_moments(x)
    elif x.ndim == 4:
        spread, mean = torch.std_mean(x, dim=(0, 2, 3), keepdim=True, correction=0)
        spread = torch.where(spread > 0, spread, 1.0)
    else:
        raise DataError(f"rows of shape {tuple(x.shape[1:])} are neither a table nor images.")
    test_x = examples.test_x
    scaled_test = None if test_x is None else (test_x - mean) / spread
    return replace(examples, x=(x - mean) / spread, test_x=scaled_test)


def column_moments(x: "Tensor") -> "tuple[Tensor, Tensor]":
    """Mean and spread of each column; 0 and 1 for columns of zeros and ones."""
    import torch

    spread, mean = torch.std_mean(x.double(), dim=0, correction=0)
    dummy = is_dummy(x)
    mean = torch.where(dummy, 0.0, mean)
    # Rounding can leave a constant column with a spread of a few ulps.
    spread = torch.where(dummy | (spread <= 1e-6 * mean.abs()), 1.0, spread)
    return mean.to(x.dtype), spread.to(x.dtype)


def is_dummy(x: "Tensor") -> "Tensor":
    """Which columns hold only 0 and 1."""
    return ((x == 0) | (x == 1)).all(0)
