"""Processes that are killed: the run ends as if nothing had happened."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from deployed import NAMES, ports, rows, together
from safetensors.torch import load_file

from unalike.deploy.keys import issue, make_authority
from unalike.run.configuration.config import read_config
from unalike.run.experiment.build import assemble, task

RECIPE = """
rounds = 8
[model]
name = "mlp"
hidden = [8]
[method]
name = "{method}"
[topology]
name = "{topology}"
[local]
lr = 0.1
batch_size = 16
epochs = 3
"""
THREE = NAMES[:3]
DYING = """
import os, pathlib, runpy, signal, sys
left, replace = [int(sys.argv.pop(1))], pathlib.Path.replace

def dying(path, target):
    left[0] -= 1
    if not left[0]:
        if path.suffix == ".tmp":  # it is half written; others are only renamed
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)

pathlib.Path.replace = dying
runpy.run_module("unalike", run_name="__main__")
"""  # killed in the middle of writing a file, the one of this number


class Consortium:
    """A coordinator and three sites, each a process of its own."""

    def __init__(self, folder: Path, method: str, topology: str = "star") -> None:
        self.folder, self.star = folder, topology == "star"
        folder.mkdir()
        make_authority(folder / "keys")
        issue(folder / "keys", "server", ("localhost",))
        for name in THREE:
            issue(folder / "keys", name, peer=True)
            x, y = rows()[name]
            np.savez(folder / f"{name}.npz", x=x, y=y)
        (folder / "recipe.toml").write_text(RECIPE.format(method=method, topology=topology))
        listed = [f'{name} = "{address}"' for name, address in ports(THREE).items()]
        (folder / "peers.toml").write_text("\n".join(listed))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"localhost:{free.getsockname()[1]}"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, dies: int = 0) -> None:
        """``dies`` is the number of the file at which it is killed, if any."""
        command = [sys.executable, "-m", "unalike"]
        if dies:
            command = [sys.executable, "-c", DYING, str(dies)]
        if not self.star:
            command += ["peer", name, "recipe.toml", "--data", f"{name}.npz"]
            command += ["--peers", "peers.toml", "--keys", "keys"]
        elif name == "coordinator":
            command += ["serve", "recipe.toml", "--sites", *THREE, "--folder", "run"]
        else:
            command += ["join", name, "--data", f"{name}.npz"]
        if self.star:
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
        paths = [self.folder / "run" / "rounds.jsonl"]
        if not self.star:
            paths = list((self.folder / "peers").glob("*/runs/*/heard.jsonl"))
        return max((p.read_bytes().count(b"\n") for p in paths if p.exists()), default=0)

    def wait(self, rounds: int, seconds: float = 180) -> None:
        end = time.monotonic() + seconds
        while self.rounds() < rounds:
            assert time.monotonic() < end, self.logs()
            time.sleep(0.01)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))

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
    assert all(torch.equal(x, found[k]) for k, x in whole.items())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", ["scaffold"])
def test_kill_9_while_checkpoints_and_states_are_written(
    method: str, tmp_path: Path, whole: dict[str, torch.Tensor]
) -> None:
    hurt = Consortium(tmp_path / "hurt", method)
    dying = {"coordinator": [11, 17], THREE[0]: [9, 14], THREE[1]: [], THREE[2]: [16]}
    for name, numbers in dying.items():
        hurt.start(name, numbers.pop(0) if numbers else 0)
    deaths, end = 0, time.monotonic() + 240
    while (left := hurt.running["coordinator"].poll()) != 0:
        assert time.monotonic() < end, hurt.logs()
        assert left in (None, -signal.SIGKILL), hurt.logs()
        for name, process in list(hurt.running.items()):
            if process.poll() == -signal.SIGKILL:
                deaths += 1
                hurt.start(name, dying[name].pop(0) if dying[name] else 0)
        time.sleep(0.05)
    found = hurt.finish()
    assert deaths == 5
    assert all(torch.equal(x, found[k]) for k, x in whole.items())


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("topology", "method", "seed"), [("star", "scaffold", 1), ("ring", "fedavg", 2)]
)
def test_five_kills_at_random(topology: str, method: str, seed: int, tmp_path: Path) -> None:
    rng, hurt = random.Random(seed), Consortium(tmp_path / "hurt", method, topology)
    everybody = ("coordinator", *THREE) if topology == "star" else THREE
    for name in everybody:
        hurt.start(name)
    for done in range(1, 6):
        hurt.wait(done)
        time.sleep(rng.random() / 10)
        victims = everybody if done == 3 else (rng.choice(everybody),)
        for victim in victims:
            hurt.kill(victim)
        for victim in victims:
            hurt.start(victim)
    config = read_config(str(hurt.folder / "recipe.toml"), [])
    data = together(THREE, config.seed)
    near = assemble(config, data, task(config, data.examples))
    progress = near.course.begin()
    for t in range(near.course.rounds):
        progress, _, _ = near.course.advance(progress, t)
    found = {name: p for name, p in hurt.running.items() if topology != "star"}
    for process in found.values():
        assert process.wait(timeout=240) == 0, hurt.logs()
    if topology == "star":
        places = {data.names[0]: hurt.folder / "run"}
        hurt.finish()
    else:
        runs = {n: (hurt.folder / "peers" / n / "runs").iterdir() for n in THREE}
        places = {name: next(folders) for name, folders in runs.items()}
    for name, place in places.items():
        model, i = load_file(place / "model.safetensors"), data.names.index(name)
        for k, x in progress.state.stack.x.items():
            assert torch.allclose(x[i], model[k], atol=1e-5), (name, k)
