"""Breast cancer (Wisconsin diagnostic): 569 tumours, 30 measurements, in scikit-learn."""

from typing import TYPE_CHECKING, ClassVar

from unalike.federation.datasets.base import TableDataset
from unalike.federation.readers import from_arrays

if TYPE_CHECKING:
    from unalike.federation.data import Examples


class BreastCancer(TableDataset):
    """569 tumours with 30 measurements, malignant or benign; needs no file and no network."""

    title: ClassVar[str] = "breast_cancer"

    def load(self) -> "Examples":
        """Label 0 is malignant (212 rows), 1 is benign (357 rows)."""
        from sklearn.datasets import load_breast_cancer

        bunch = load_breast_cancer()
        names = tuple(str(name) for name in bunch.target_names)
        return self.finish(
            from_arrays(bunch.data, bunch.target, class_names=names, name=self.title)
        )
