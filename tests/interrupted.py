"""Runs that are cut short, and what must be the same after they went on."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from unalike.run.configuration.config import parse
from unalike.run.execute import start

SMALL: dict[str, Any] = {
    "rounds": 6,
    "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.5, "min_size": 30},
    "model": {"name": "mlp", "hidden": [8]},
    "local": {"epochs": 0.5, "batch_size": 32, "lr": 0.2},
    "participation": {"number": 4},
    "faults": {"drop": 0.2, "straggle": 0.3, "garbage": 0.15},
    "evaluation": {"every": 2},
    "run": {"checkpoint_every": 2},
}
STATEFUL: dict[str, dict[str, Any]] = {  # each keeps another kind of state
    "scaffold": {"method": "scaffold"},
    "aaggff_d": {"method": "aaggff_d"},
    "aaggff_s": {"method": "aaggff_s", "participation": {"fraction": 1.0}},  # grows with the rounds
    "superfed_mm": {"method": {"name": "superfed_mm", "start": 0.3}},
    "superfed_lm": {"method": {"name": "superfed_lm", "start": 0.3}},
    "phase_shift": {
        "method": "phase_shift",
        "local": {**SMALL["local"], "momentum": 0.9, "lr": 0.05},
    },
    "lg_fedavg": {"method": {"name": "lg_fedavg", "warm_start": 3}},
    "fedadam": {"method": "fedprox", "plus": [{"name": "fedadam", "lr": 0.01}]},
    "ring": {"topology": "ring", "participation": {"fraction": 1.0}},
    "copies": {"method": {"name": "topk", "share": 0.1}, "plus": ["eight_bit"], "topology": "ring"},
    "codes": {  # whose length depends on what is sent, on a clock that is known beforehand
        "method": {"name": "stc", "share": 0.05},
        "clock": {"kind": "simulated", "up": 1e3, "down": 1e5, "network_spread": 1.0},
    },
    "late": {  # messages between neighbours, some of which miss the deadline
        "topology": {"name": "random", "redraw": 1},
        "participation": {"fraction": 1.0},
        "clock": {"kind": "simulated", "jitter": 0.5, "up": 1e4, "deadline": 1.0},
    },
}
FILES = ("rounds.jsonl", "clients.jsonl", "summary.json", "model.safetensors")


def raw(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """A small configuration that lives in a folder."""
    return {**SMALL, **changes, "run": {**SMALL["run"], "folder": str(folder)}}


def whole(folder: Path, changes: dict[str, Any]) -> Path:
    """The run that nothing interrupts."""
    return start(parse(raw(folder, changes)))


def state(folder: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    """(notes, tensors) of the checkpoint, and of every client's state; where it was made, and in
    how many files clients' states lie, which a stop between two checkpoints changes, is left out.
    """
    place = folder / "checkpoint"
    with safe_open(place / "state.safetensors", "pt") as f:
        notes = {k: v for k, v in f.metadata().items() if k not in ("config", "digest", "shards")}
        tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
    for client, shard, row in tensors.pop("states").tolist():
        with safe_open(place / "clients" / f"{shard:08d}.safetensors", "pt") as f:
            tensors |= {f"{client}{name}": f.get_tensor(name)[row] for name in f.keys()}  # noqa: SIM118
    return {k: v for k, v in notes.items() if not k.startswith("shard:")}, tensors


def assert_same_run(one: Path, other: Path) -> None:
    """All that a run leaves behind is the same to the byte."""
    for name in FILES:
        assert (one / name).exists() == (other / name).exists(), name
        if (one / name).exists():
            same = (one / name).read_bytes() == (other / name).read_bytes()
            assert same, f"{name}: {_apart(one / name, other / name)}"
    (notes, tensors), (more_notes, more) = state(one), state(other)
    assert notes == more_notes, set(notes.items()) ^ set(more_notes.items())
    assert list(tensors) == list(more)
    assert all(torch.equal(tensors[k], more[k]) for k in tensors)
    timed = [len((f / "timing.jsonl").read_text().splitlines()) for f in (one, other)]
    assert timed[0] == timed[1]


def _apart(one: Path, other: Path) -> str:
    """The first place where two files differ, with what surrounds it."""
    a, b = one.read_bytes(), other.read_bytes()
    apart = (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    at = next(apart, min(len(a), len(b)))
    near = slice(max(0, at - 120), at + 60)
    return f"byte {at} of {len(a)} and {len(b)}: {a[near]!r} against {b[near]!r}"


def write_toml(path: Path, values: dict[str, Any]) -> Path:
    """A configuration file, in TOML's inline notation."""
    path.write_text("".join(f"{k} = {_toml(v)}\n" for k, v in values.items()))
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


@contextmanager
def process(arguments: Sequence[str], cwd: Path) -> Iterator["subprocess.Popen[str]"]:
    """``unalike`` in a process of its own, which does not outlive the test."""
    with subprocess.Popen(
        [sys.executable, "-m", "unalike.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def wait_for_round(running: "subprocess.Popen[str]", folder: Path, rounds: int) -> None:
    """Until so many rounds are written down, or the process ended."""
    log, deadline = folder / "rounds.jsonl", time.monotonic() + 120
    while running.poll() is None and time.monotonic() < deadline:
        if rounds == 0 and (folder / "config.json").exists():
            return
        if rounds and log.exists() and log.read_bytes().count(b"\n") >= rounds:
            return
        time.sleep(0.002)
    raise AssertionError(f"round {rounds} was never seen: {running.communicate(timeout=5)}")
