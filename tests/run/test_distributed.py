"""``unalike run --distributed``: processes of torchrun play the run that one process plays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from interrupted import STATEFUL, assert_same_run, raw, whole, write_toml

from unalike.engine.simulation.ranks import Torchrun
from unalike.errors import ConfigError
from unalike.run.configuration.config import parse
from unalike.run.distributed import lead
from unalike.run.execute import Silent

LONG: dict[str, Any] = {**STATEFUL["scaffold"], "rounds": 20, "engine": {"kind": "sequential"}}


def started(file: Path, *options: str) -> "subprocess.Popen[str]":
    """Two processes on this machine, under torchrun, in a group of their own."""
    called = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    called += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", *options]
    called += ["-m", "unalike", "run", str(file), "--distributed"]
    return subprocess.Popen(
        called,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=file.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def workers() -> list[int]:
    """The processes of the run, without torchrun's own."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--distributed" in words and b"torch.distributed.run" not in words:
            found.append(int(place.name))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_write_what_one_writes(tmp_path: Path) -> None:
    place = tmp_path / "two"
    running = started(write_toml(tmp_path / "run.toml", raw(place, LONG)))
    said, _ = running.communicate(timeout=240)
    assert running.returncode == 0, said
    assert_same_run(whole(tmp_path / "one", LONG), place)
    again = started(tmp_path / "run.toml")  # of a finished run nothing is computed
    assert "all rounds were already done" in again.communicate(timeout=240)[0]
    assert again.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("which", [0, 1])
def test_a_process_killed_in_a_round_is_started_again(which: int, tmp_path: Path) -> None:
    place = tmp_path / "two"
    file = write_toml(tmp_path / "run.toml", raw(place, LONG))
    running, log = started(file, "--max-restarts", "5"), place / "rounds.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < 6:
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.01)
    os.kill(workers()[which], signal.SIGKILL)
    said, _ = running.communicate(timeout=240)
    assert running.returncode == 0, said
    assert_same_run(whole(tmp_path / "one", LONG), place)


def test_what_is_needed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match=r"RANK is not set.*torchrun --nproc-per-node 2"):
        Torchrun()
    ranks: Any = None
    with pytest.raises(ConfigError, match=r"--distributed needs run\.folder"):
        lead(parse({}), Silent(), ranks)
    disk = {"run": {"folder": "x"}, "engine": {"states": "disk"}}
    with pytest.raises(ConfigError, match=r"set engine\.states = 'memory'"):
        lead(parse(disk), Silent(), ranks)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_cells_of_a_comparison_are_shared(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        'rounds = 2\npartition = {clients = 4}\nmodel = {name = "mlp", hidden = [4]}\n'
        '[compare]\nmethods = ["fedavg", "scaffold"]\nseeds = 3\n'
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    alone = [sys.executable, "-m", "unalike", "compare", "c.toml", "--folder", "one"]
    both = [*launch, "-m", "unalike", "compare", "c.toml", "--distributed", "--folder", "two"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for called in (alone, both):
        done = subprocess.run(
            called, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
    one, two = ((tmp_path / name / "table.md").read_text() for name in ("one", "two"))
    assert one == two
