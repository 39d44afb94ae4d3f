"""How PyTorch multiplies single precision on a GPU, for the length of a test."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def multiplied(how: str) -> Iterator[None]:
    """By "ieee" or "tf32"; monkeypatch cannot take back what is no real attribute."""
    places = torch.backends.cudnn.conv, torch.backends.cuda.matmul
    before = [place.fp32_precision for place in places]
    try:
        for place in places:
            place.fp32_precision = how
        yield
    finally:
        for place, was in zip(places, before, strict=True):
            place.fp32_precision = was
