"""What every test runs under."""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# A fixed set of examples: a test that fails must fail again.
settings.register_profile("unalike", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("unalike")


@pytest.fixture(autouse=True)
def _quiet_and_single() -> Iterator[None]:
    """One thread, so that parallel test processes do not fight, and the default precision."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)
