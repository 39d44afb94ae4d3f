"""What every test runs under."""

import gc
import os
import sys
from collections.abc import Iterator

# Before NumPy or PyTorch load a library that reads it: two threads of a product of small matrices
# wait for one another on a core that the other test process needs.
os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")

import pytest
import torch
from command_line import Unalike
from hypothesis import settings

from unalike.cli.main import main

# A fixed set of examples: a test that fails must fail again.
settings.register_profile("unalike", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("unalike")


def pytest_collection_finish() -> None:
    """The garbage collector need not look at fifteen thousand tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Some milliseconds for each file; what a power cut leaves is simulated (breaking/power.py)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # a descriptor must be open still
        yield


@pytest.fixture(autouse=True, scope="session")
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Marks of runs with own code are made with a key that is not the user's."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def _quiet_and_single() -> Iterator[None]:
    """One thread, so that parallel test processes do not fight, and the default precision."""
    torch.set_num_threads(1)
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)


@pytest.fixture
def unalike(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Unalike:
    """Run a command line in this process; (exit code, standard output, standard error)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["unalike", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    return run
