"""Readers: one file format or library each, all giving ``Examples``."""

from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.frames import from_frame, read_table
from unalike.federation.readers.hub import from_hub, read_hub
from unalike.federation.readers.images import read_images
from unalike.federation.readers.npz import read_npz

__all__ = [
    "from_arrays",
    "from_frame",
    "from_hub",
    "read_hub",
    "read_images",
    "read_npz",
    "read_table",
]
