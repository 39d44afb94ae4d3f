"""Diabetes: 442 patients, 10 measurements, the progression of the disease, in scikit-learn."""

from typing import TYPE_CHECKING, ClassVar

from unalike.federation.datasets.base import TableDataset
from unalike.federation.readers import from_arrays

if TYPE_CHECKING:
    from unalike.federation.data import Examples
    from unalike.kinds import Kind


class Diabetes(TableDataset):
    """442 patients with 10 measurements; a number is predicted; needs no file and no network."""

    title: ClassVar[str] = "diabetes"

    def kind(self) -> "Kind":
        """A measure of the disease's progression, 25 to 346."""
        return "regression"

    def load(self) -> "Examples":
        """Measurements as they were taken (Efron et al. 2004), not as the paper scales them."""
        from sklearn.datasets import load_diabetes

        bunch = load_diabetes(scaled=False)
        return self.finish(from_arrays(bunch.data, bunch.target, kind=self.kind(), name=self.title))
