"""Where the real datasets are, for the tests that need them."""

import os
from pathlib import Path

import pytest

from unalike.compare.specification.spec import Comparison
from unalike.errors import DataError
from unalike.federation.datasets import DATASETS

FOLDER = Path(
    os.environ.get("UNALIKE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)
MISSING = (
    "no real data: UNALIKE_DATA is not a folder and ../shared/data is not beside this checkout"
)
NOT_HERE = {"tiny_imagenet", "celeba", "reddit", "speech_commands", "fed_isic"}  # by default
needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason=MISSING)


def skip_absent(comparison: Comparison) -> None:
    """Skip a comparison of a dataset whose files are in nobody's folder; the reason names them."""
    for name in {c.config.data.name for c in comparison.cells} & NOT_HERE:
        try:
            DATASETS[name]().load()
        except DataError as error:
            pytest.skip(str(error))
