"""What every test runs under."""

import os
import sys
from collections.abc import Iterator

import pytest
import torch
from command_line import Unalike
from hypothesis import settings

from unalike.cli.main import main

# A fixed set of examples: a test that fails must fail again.
settings.register_profile("unalike", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("unalike")


@pytest.fixture(autouse=True, scope="session")
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Marks of runs with own code are made with a key that is not the user's."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def _quiet_and_single() -> Iterator[None]:
    """One thread, so that parallel test processes do not fight, and the default precision."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
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
