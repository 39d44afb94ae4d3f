"""FEMNIST (Caldas et al., LEAF, 2018): handwritten digits and letters by writer."""

import string
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import ImageDataset, StoredDataset
from unalike.federation.readers import from_arrays, from_hub
from unalike.federation.readers.leaf import leaf_files, read_leaf
from unalike.federation.readers.npz import load_npz

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_NAMES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)


class Femnist(StoredDataset, ImageDataset):
    """Handwritten digits and letters, 28 x 28 pixels, 62 classes; the writers are the clients."""

    title: ClassVar[str] = "femnist"
    files: ClassVar[str] = (
        "LEAF's femnist/data folder of JSON files, or femnist.npz with x, y and writer,"
    )
    hub_name: ClassVar[str] = "flwrlabs/femnist"

    writers: int = Field(
        default=0, ge=0, description="how many writers to keep, in the order of names; 0: all"
    )

    def load(self) -> "Examples":
        """From LEAF's JSON files, else femnist.npz, else the hub; ink is dark on white (1)."""
        for place in self.subfolders("femnist", "leaf/femnist"):
            if files := leaf_files(place):
                rows = read_leaf(files)
                return self._examples(rows.x.astype(np.float32), rows.y, rows.user)
        if found := self.find("femnist.npz"):
            arrays = load_npz(found[0])
            if not {"x", "y", "writer"} <= set(arrays):
                raise DataError(f"'{found[0]}' must hold x, y and writer, not {', '.join(arrays)}.")
            return self._examples(arrays["x"], arrays["y"], arrays["writer"])
        whole = from_hub(
            self.hub()["train"], label="character", client="writer_id", name=self.title
        )
        names = np.array(whole.group_names)
        # Grey pictures, whatever mode they are stored in.
        return self._examples(whole.x[:, 0].numpy(), whole.y.numpy(), names[whole.groups])

    def _examples(self, x: np.ndarray, y: np.ndarray, writer: np.ndarray) -> "Examples":
        if self.writers:
            kept = np.isin(writer, np.unique(writer)[: self.writers])
            x, y, writer = x[kept], y[kept], writer[kept]
        if x[0].size != 28 * 28:
            raise DataError(f"FEMNIST images have 28 x 28 pixels, got rows of shape {x.shape[1:]}.")
        return self.finish(
            from_arrays(
                x.reshape(-1, 1, 28, 28),
                y,
                writer,
                classes=62,
                class_names=_NAMES,
                layout="NCHW",
                name=self.title,
            )
        )
