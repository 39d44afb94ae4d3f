"""Where the real datasets are, for the tests that need them."""

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("UNALIKE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)
MISSING = (
    "no real data: UNALIKE_DATA is not a folder and ../shared/data is not beside this checkout"
)
needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason=MISSING)
