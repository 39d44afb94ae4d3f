"""MNIST (LeCun, Cortes and Burges, 1998), with the writers of QMNIST (Yadav and Bottou, 2019)."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.mnist_like import MnistLike
from unalike.federation.readers.npz import load_npz


class Mnist(MnistLike):
    """60,000 handwritten digits of 28 x 28 pixels; the writers can be the clients."""

    title: ClassVar[str] = "mnist"
    npz: ClassVar[str] = "mnist.npz"
    places: ClassVar[tuple[str, ...]] = ("mnist", "MNIST/raw", "MNIST")
    files: ClassVar[str] = "mnist.npz or the four idx files (train-images-idx3-ubyte.gz and so on)"
    hub_name: ClassVar[str] = "ylecun/mnist"

    clients: Literal["", "writer"] = Field(
        default="",
        description="'writer': the 539 people who wrote the training digits (mnist_writers.npz)",
    )

    def writers(self) -> np.ndarray | None:
        """The NIST writer of each training digit."""
        if not self.clients:
            return None
        found = self.find("mnist_writers.npz")
        arrays = load_npz(found[0]) if found else {}
        if "writer_train" not in arrays:
            raise DataError(
                "clients = 'writer' needs mnist_writers.npz, with the key writer_train, "
                "beside the MNIST files."
            )
        return arrays["writer_train"]
