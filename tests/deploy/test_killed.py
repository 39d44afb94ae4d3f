"""Processes that are killed: the run ends as if nothing had happened."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from deployed import NAMES, rows
from safetensors.torch import load_file

from unalike.deploy.keys import issue, make_authority

RECIPE = """
rounds = 8
[model]
name = "mlp"
hidden = [8]
[method]
name = "{method}"
[local]
lr = 0.1
batch_size = 16
epochs = 3
"""
THREE = NAMES[:3]


class Consortium:
    """A coordinator and three sites, each a process of its own."""

    def __init__(self, folder: Path, method: str) -> None:
        self.folder = folder
        folder.mkdir()
        make_authority(folder / "keys")
        issue(folder / "keys", "server", ("localhost",))
        for name in THREE:
            issue(folder / "keys", name)
            x, y = rows()[name]
            np.savez(folder / f"{name}.npz", x=x, y=y)
        (folder / "recipe.toml").write_text(RECIPE.format(method=method))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"localhost:{free.getsockname()[1]}"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "unalike"]
        if name == "coordinator":
            command += ["serve", "recipe.toml", "--sites", *THREE, "--folder", "run"]
        else:
            command += ["join", name, "--data", f"{name}.npz"]
        command += ["--at", self.address, "--keys", "keys"]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, env=env
            )

    def kill(self, name: str) -> None:
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()

    def rounds(self) -> int:
        path = self.folder / "run" / "rounds.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait(self, rounds: int, seconds: float = 180) -> None:
        end = time.monotonic() + seconds
        while self.rounds() < rounds:
            assert time.monotonic() < end, (self.folder / "coordinator.log").read_text()
            time.sleep(0.01)

    def finish(self) -> dict[str, torch.Tensor]:
        code = self.running["coordinator"].wait(timeout=240)
        assert code == 0, (self.folder / "coordinator.log").read_text()
        for name in THREE:
            self.running[name].wait(timeout=60)
        return load_file(self.folder / "run" / "model.safetensors")


@pytest.fixture
def whole(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, torch.Tensor]:
    """The model of a run that nobody disturbed."""
    alone = Consortium(tmp_path / "whole", request.getfixturevalue("method"))
    for name in ("coordinator", *THREE):
        alone.start(name)
    return alone.finish()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "superfed_mm"])
def test_kill_9_of_everybody_in_turn(
    method: str, tmp_path: Path, whole: dict[str, torch.Tensor]
) -> None:
    hurt = Consortium(tmp_path / "hurt", method)
    for name in ("coordinator", *THREE):
        hurt.start(name)
    for done, victim in enumerate(("coordinator", THREE[0], THREE[2], "coordinator"), 1):
        hurt.wait(done)
        hurt.kill(victim)
        hurt.start(victim)
    found = hurt.finish()
    assert all(torch.allclose(x, found[k], atol=1e-6) for k, x in whole.items())
