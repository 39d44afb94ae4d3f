"""CIFAR-100 (Krizhevsky, 2009)."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import ImageDataset, StoredDataset
from unalike.federation.readers import from_arrays, from_hub
from unalike.federation.readers.cifar import read_binary

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_PLACES = ("cifar-100-binary", "cifar100", "cifar100/cifar-100-binary")


class Cifar100(StoredDataset, ImageDataset):
    """50,000 photographs of 32 x 32 pixels in 100 classes, or 20 coarse ones."""

    title: ClassVar[str] = "cifar100"
    files: ClassVar[str] = (
        "the binary version's folder cifar-100-binary with train.bin and test.bin"
    )
    hub_name: ClassVar[str] = "uoft-cs/cifar100"

    labels: Literal["fine", "coarse"] = Field(
        default="fine", description="100 fine classes or 20 coarse ones"
    )

    def load(self) -> "Examples":
        """From the binary version, else the hub."""
        for place in self.subfolders(*_PLACES, "cifar-100-python"):
            train, test = place / "train.bin", place / "test.bin"
            if train.is_file() and test.is_file():
                x, both = read_binary([train], 2)
                test_x, test_both = read_binary([test], 2)
                which = 1 if self.labels == "fine" else 0  # each record: coarse byte, fine byte
                examples = from_arrays(
                    x,
                    both[:, which],
                    test=(test_x, test_both[:, which]),
                    classes=100 if self.labels == "fine" else 20,
                    layout="NCHW",
                    name=self.title,
                )
                return self.finish(examples)
            if (place / "train").is_file():
                raise DataError(
                    f"'{place}' holds CIFAR-100's pickled version, which is not read; "
                    "get the binary version, cifar-100-binary.tar.gz."
                )
        splits = self.hub()
        label = f"{self.labels}_label"
        return self.finish(
            from_hub(splits["train"], test=splits["test"], label=label, name=self.title)
        )
