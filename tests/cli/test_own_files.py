"""A table and a network of one's own, named in a file and run from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import Unalike
from safetensors.torch import load_file

from unalike.errors import RunWarning, warn_once
from unalike.run.configuration.config import read_config
from unalike.run.experiment.build import federation

NET = """
from torch import nn

class Net(nn.Module):
    head = ("last.",)

    def __init__(self, shape, classes):
        super().__init__()
        self.first = nn.Linear(shape[0], 6)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(6, classes)

    def forward(self, x):
        return self.last(self.drop(self.first(x).relu()))
"""
FILE = """
rounds = 15

[data]
name = "files"
path = "patients.csv"
label = "diagnosis"
client = "hospital"

[partition]
name = "natural"

[model]
name = "module"
file = "net.py"
attribute = "Net"

[method]
name = "lg_fedavg"

[local]
lr = 0.2
batch_size = 8

[run]
folder = "out"
checkpoint_every = 4
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with patients of three hospitals, a network and a configuration."""
    draw = np.random.default_rng(0)
    age, pressure = draw.normal(60, 9, 300), draw.normal(120, 12, 300)
    hospital = draw.choice(["east", "north", "west"], 300, p=[0.2, 0.5, 0.3])
    sick = age / 9 + pressure / 12 + draw.normal(0, 0.3, 300) > 60 / 9 + 10
    rows = zip(hospital, age, pressure, draw.choice(["F", "M"], 300), sick, strict=True)
    lines = [f"{h},{a:.1f},{p:.0f},{s},{'sick' if y else 'well'}" for h, a, p, s, y in rows]
    head = "hospital,age,pressure,sex,diagnosis"
    (tmp_path / "patients.csv").write_text("\n".join([head, *lines]) + "\n")
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "c.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_and_a_network(place: Path, unalike: Unalike):
    data = federation(read_config("c.toml"))
    assert data.names == ("east", "north", "west")
    assert data.examples.x.shape == (300, 4)  # age, pressure, sex as two columns
    code, out, _ = unalike("run", "c.toml", "--set", "method.name=fedavg")
    assert code == 0
    assert "fedavg on patients: 3 clients" in out
    assert "\nread 300 examples, each with 4 features, of 2 classes\n" in out
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert summary["last"]["global"]["accuracy"]["mean"] > 0.85
    model = load_file(place / "out" / "model.safetensors")
    assert {k: tuple(v.shape) for k, v in model.items()} == {
        "first.weight": (6, 4),
        "first.bias": (6,),
        "last.weight": (1, 6),
        "last.bias": (1,),
    }


def test_private_bodies_leave_no_shared_model(place: Path, unalike: Unalike):
    assert unalike("run", "c.toml")[0] == 0
    assert not (place / "out" / "model.safetensors").exists()
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert summary["last"]["local"]["accuracy"]["mean"] > 0.8
    sent = 4 * 7 * 3 * 15  # bytes of the head, to three clients in fifteen rounds
    assert summary["bytes_down"] == sent


def test_the_config_that_was_written_runs_again(place: Path, unalike: Unalike):
    """Every default is spelled out in it, also those that mean nothing for a table."""
    assert unalike("run", "c.toml", "--set", "rounds=2")[0] == 0
    written = json.loads((place / "out" / "config.json").read_text())
    assert written["data"]["layout"] == "auto"
    for name in ("manifest.json", "summary.json", "checkpoint/state.safetensors"):
        (place / "out" / name).unlink()
    assert unalike("resume", "out", "--trust")[0] == 0
    assert (place / "out" / "summary.json").exists()


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_images_in_an_archive(place: Path, engine: str, unalike: Unalike):
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, 120)
    x = draw.integers(0, 50, (120, 6, 6)).astype(np.uint8)
    x[np.arange(120), y] += 200  # a bright line in row y
    np.savez(place / "scans.npz", x=x, y=y, scanner=np.arange(120) % 4)
    (place / "c.toml").write_text(
        'rounds = 8\nmodel = {name = "mlp", hidden = [16]}\npartition = {name = "natural"}\n'
        'data = {name = "files", path = "scans.npz", client = "scanner"}\n'
        'local = {lr = 0.3, batch_size = 8, epochs = 2}\nrun = {folder = "out"}\n'
    )
    assert unalike("run", "c.toml", "--engine", engine)[0] == 0
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert summary["last"]["local"]["accuracy"]["mean"] > 0.9
    assert torch.isfinite(load_file(place / "out" / "model.safetensors")["features.1.weight"]).all()


def test_a_slip_in_a_table_is_warned_of(place: Path, unalike: Unalike):
    warn_once.cache_clear()
    table = place / "patients.csv"
    lines = table.read_text().splitlines()
    hospital, _, rest = lines[6].split(",", 2)
    table.write_text("\n".join([*lines[:6], f"{hospital},sixty,{rest}", *lines[7:]]))
    with pytest.warns(RunWarning, match=r"column 'age' .*'sixty' in line 7 of 'patients.csv'"):
        assert unalike("run", "c.toml", "--set", "rounds=1")[0] == 0


@pytest.mark.parametrize("setting", ["drop=['sex']", "data.drop=['sex']"])
def test_a_site_says_how_its_file_is_read(setting: str, place: Path, unalike: Unalike):
    """As ``unalike list files`` names a setting, or as a message does."""
    (place / "recipe.toml").write_text('rounds = 2\nmodel = "logistic"\n')
    given = ("--data", "patients.csv", "--label", "diagnosis", "--dry-run", "recipe.toml")
    code, out, err = unalike("join", "north", *given, "--set", setting)
    assert code == 0, err
    assert "'sex'" not in out
    assert "'pressure'" in out
