"""The walk-through of docs/how-to-deploy.md on one machine: its own lines, other addresses."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to-deploy.md"
RECIPE = 'rounds = 3\nseed = 1\n[model]\nname = "logistic"\n[method]\nname = "ditto"\n'


def steps(port: int) -> dict[int, list[str]]:
    """The commands of each step, for loopback."""
    text = PAGE.read_text(encoding="utf-8").partition("## Two machines, step by step")[2]
    text = text.partition("\n## ")[0].replace("\n   ", " ")
    found: dict[int, list[str]] = {}
    for number, line in re.findall(r"^(\d+)\. (.*)$", text, re.M):
        commands = re.findall(r"`((?:unalike|mkdir) [^`]*)`", line)
        for old, new in (("a.example.org", "localhost"), ("0.0.0.0", "127.0.0.1")):
            commands = [c.replace(old, new) for c in commands]
        found[int(number)] = [c.replace("9432", str(port)) for c in commands]
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_stranger_can_follow_it(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        asked = steps(free.getsockname()[1])
    draw = np.random.default_rng(0)
    for name in ("north", "south", "new"):
        age = draw.normal(60, 12, 80).round(1)
        ward = draw.choice(["a", "b", "c"], 80)
        pl.DataFrame({"age": age, "ward": ward, "outcome": (age > 60).astype(int)}).write_csv(
            tmp_path / f"{name}.csv"
        )
    (tmp_path / "winner.toml").write_text(RECIPE)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    python = f"{sys.executable} -m unalike"

    def shell(command: str) -> "subprocess.Popen[str]":
        line = re.sub(r"^unalike\b", python, command)
        return subprocess.Popen(
            line, shell=True, cwd=tmp_path, env=env, text=True, stdout=-1, stderr=subprocess.STDOUT
        )

    def done(process: "subprocess.Popen[str]") -> str:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said

    for command in (*asked[2], *asked[3][:1], *asked[5]):
        said = done(shell(command))
    assert "upload, each round of 3" in said
    serving = shell(asked[6][0])
    time.sleep(1)
    joined = [shell(asked[n][0]) for n in (7, 8)]
    said = done(serving)
    assert re.search(r"round 3 of 3: 2 of 2 sites, accuracy \d+\.\d\d%$", said, re.MULTILINE)
    for process in joined:
        said = done(process)
    (run,) = (tmp_path / "sites" / "south" / "runs").iterdir()
    assert f"unalike predict {run.relative_to(tmp_path)} NEW_ROWS --client south" in said
    table = done(shell(asked[10][0].replace("RUN", run.name)))
    assert "the model of client south" in table
    assert len(table.splitlines()) == 82  # head, rows, and whose model it was
    for folder in ("runs/serve-winner", run.relative_to(tmp_path)):
        done(shell(f"unalike report {folder}"))
