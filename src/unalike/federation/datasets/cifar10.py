"""CIFAR-10 (Krizhevsky, 2009)."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unalike.errors import DataError
from unalike.federation.datasets.base import ImageDataset, StoredDataset
from unalike.federation.readers import from_arrays, from_hub
from unalike.federation.readers.cifar import read_binary, read_delta

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
_BATCHES = [f"data_batch_{number}" for number in range(1, 6)]
_PLACES = ("cifar-10-batches-bin", "cifar10", "cifar10/cifar-10-batches-bin")
_Pair = tuple[np.ndarray, np.ndarray]


class Cifar10(StoredDataset, ImageDataset):
    """50,000 photographs of 32 x 32 pixels in 10 classes of things and animals."""

    title: ClassVar[str] = "cifar10"
    files: ClassVar[str] = (
        "cifar10_train.npz and cifar10_test.npz, or the binary version's data_batch_1.bin to "
        "data_batch_5.bin and test_batch.bin"
    )
    hub_name: ClassVar[str] = "uoft-cs/cifar10"

    def load(self) -> "Examples":
        """From the NPZ files, else the binary version, else the hub."""
        pairs = self._local()
        if pairs is None:
            splits = self.hub()
            return self.finish(
                from_hub(splits["train"], test=splits["test"], label="label", name=self.title)
            )
        train, test = pairs
        return self.finish(
            from_arrays(
                *train,
                test=test,
                classes=10,
                class_names=tuple(_NAMES),
                layout="NCHW",
                name=self.title,
            )
        )

    def _local(self) -> tuple[_Pair, _Pair] | None:
        if found := self.find("cifar10_train.npz", "cifar10_test.npz"):
            return read_delta(found[0]), read_delta(found[1])
        for place in self.subfolders(*_PLACES, "cifar-10-batches-py"):
            batches = [place / f"{name}.bin" for name in [*_BATCHES, "test_batch"]]
            if all(path.is_file() for path in batches):
                x, y = read_binary(batches[:-1], 1)
                test_x, test_y = read_binary(batches[-1:], 1)
                return (x, y[:, 0]), (test_x, test_y[:, 0])
            if (place / _BATCHES[0]).is_file():
                raise DataError(
                    f"'{place}' holds CIFAR-10's pickled version, which is not read; "
                    "get the binary version, cifar-10-binary.tar.gz."
                )
        return None
