"""A run's models say of the test rows what its records say, wherever they are asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from patients import patients, run

import unalike
from unalike.algorithms.table import METHODS
from unalike.federation.data import TEST
from unalike.run.configuration.config import tables

SETTINGS = {
    "fedevg": {"per_class": 2, "judge_epochs": 3, "clip_pixels": False},
    "fedcvae": {"per_class": 4, "judge_epochs": 3, "latent": 4},
    "fedcgan": {"per_class": 4, "judge_epochs": 3, "latent": 4},
    "latent_disco": {"warmup": 1},
    "krum": {"attackers": 0},
    "trimmed_mean": {"trim": 0.25},
    "fedaug": {"target": 0.01},
    "fedbuff": {"buffer": 1, "concurrency": 2},
    "tifl": {"tiers": 2},
}
HALF = {"participation": {"fraction": 0.5}}
MORE: dict[str, dict[str, Any]] = {  # what a method needs beside settings of its own
    "fedcvae": {"data": {"normalise": "none"}},
    "fedcgan": {"data": {"normalise": "none"}},
    "by_size": HALF,
    "power_of_choice": HALF,
    "tifl": {"participation": {"number": 1}},
    "fedbn": {"model": {"name": "mlp", "hidden": [8], "batch_norm": True}},
}


def recorded(folder: Path, which: str) -> dict:
    """The line of clients.jsonl that belongs to the last or the selected round."""
    summary = json.loads((folder / "summary.json").read_text())
    lines = map(json.loads, (folder / "clients.jsonl").read_text().splitlines())
    return next(line for line in lines if line["round"] == summary[which]["round"])


def agrees(folder: Path, table: pl.DataFrame, which: str = "selected") -> None:
    """Predictions on the training file give the recorded accuracy and loss, client by client."""
    trained, found = unalike.load(folder, which), recorded(folder, which)
    rows = np.load(folder / "rows.npz")
    truth = table["risk"].to_numpy()[rows["row"]]
    tested = rows["part"] == TEST
    right, lost = [], []
    for k, name in enumerate(trained.clients):
        mine = tested & (rows["client"] == k)
        own = table[rows["row"][mine]]
        assert set(own["hospital"]) == {name}
        model = trained.personal(name)
        assert np.mean(model.predict(own) == truth[mine]) == found["local"]["accuracy"][k]
        codes = np.searchsorted(trained.classes_, truth[mine])
        p = model.predict_proba(own)[np.arange(len(codes)), codes]
        assert -np.log(p).mean() == pytest.approx(found["local"]["loss"][k], abs=1e-5)
        shared = trained.personal(name, shared=True)
        right.append(shared.predict(own) == truth[mine])
        lost.append(-np.log(shared.predict_proba(own)[np.arange(len(codes)), codes]))
    if "nodes" in found:  # the mean over servers, which no ensemble of them has to equal
        return
    assert np.concatenate(right).mean() == found["global"]["accuracy"][0]
    assert np.concatenate(lost).mean() == pytest.approx(found["global"]["loss"][0], abs=1e-5)


def bounded() -> pl.DataFrame:
    """Patients whose numbers lie between 0 and 1, for methods that draw examples there."""
    table = patients()
    numbers = [pl.col(c).fill_null(strategy="mean") for c in ("age", "pressure")]
    scaled = [(c - c.min()) / (c.max() - c.min()) for c in numbers]
    return table.with_columns(*scaled, pl.col("job").fill_null("cook"))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method(name: str, tmp_path: Path) -> None:
    table = bounded() if name in ("fedcvae", "fedcgan") else patients()
    method = {"name": name, **SETTINGS.get(name, {})}
    if name == "latent_disco":
        vae = {"name": "vae", "hidden": [8]}
        method["encoder"] = str(run(tmp_path / "vae", table, model=vae, rounds=1))
    folder = run(tmp_path, table, method=method, **MORE.get(name, {}))
    for which in ("selected", "last"):
        agrees(folder, table, which)


CIRCUMSTANCES = {
    "clusters": {"topology": {"name": "clusters", "servers": 2}},
    "ring": {"topology": "ring"},
    "own statistics": {"model": {"name": "module", "file": "net.py"}, "run": {"buffers": "local"}},
    "frozen body": {
        "model": {"name": "module", "file": "net.py", "attribute": "frozen"},
        "method": "local_only",
        "seed": 3,
    },
    "own scale": {"data": {"normalise": "client"}},
    "votes": {"method": "local_only", "evaluation": {"ensemble": "votes"}},
    "mean weights": {"method": "local_only", "evaluation": {"ensemble": "weights"}},
    "one by one": {"method": "lg_fedavg", "engine": {"kind": "sequential"}},
    "seldom": {"evaluation": {"every": 3}, "participation": {"number": 2}},
    "two stages": {"method": {"name": "lg_fedavg", "warm_start": 2}},
    "tuned statistics": {
        "model": {"name": "module", "file": "net.py"},
        "run": {"buffers": "local"},
        "method": {"name": "finetune", "rounds": 2},
        "participation": {"number": 2},
    },
    "three stages": {
        "method": {"name": "lg_fedavg", "warm_start": 1},
        "plus": ["finetune"],
        "evaluation": {"ensemble": "weights"},
        "participation": {"number": 2},
    },
    "a line and new clients": {
        "method": {"name": "superfed_mm", "start": 0.0},
        "plus": [{"name": "finetune", "rounds": 2}],
        "evaluation": {"line": 5},
    },
    "by loss": {"method": "superfed_mm", "evaluation": {"select": "loss"}, "rounds": 6},
}
NET = """
from torch import nn

class Model(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.body(x))

def frozen(shape, classes):
    body = nn.Linear(shape[0], 8)
    body.requires_grad_(False)
    return nn.Sequential(body, nn.ReLU(), nn.Linear(8, classes))
"""


@pytest.mark.parametrize("case", CIRCUMSTANCES)
def test_under_all_circumstances(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    table = patients()
    folder = run(tmp_path, table, **CIRCUMSTANCES[case])
    Path("net.py").unlink()  # the folder has a copy
    for which in ("selected", "last"):
        agrees(folder, table, which)


GRAPHS = {"star", "graph", "torus"}  # of all tests above; a file's; for nine clients or more


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(tables()["topology"].keys() - GRAPHS))
def test_on_every_graph(name: str, tmp_path: Path) -> None:
    table = patients()
    agrees(run(tmp_path, table, topology=name), table)


def test_code_of_others_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that this user did not start may hold anything."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    table = patients()
    folder = run(tmp_path, table, model={"name": "module", "file": "net.py"}, rounds=1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    with pytest.raises(unalike.RunError, match=r"names the Python file 'net\.py', which would be"):
        unalike.load(folder)
    assert len(unalike.load(folder, trust=True).predict(table)) == len(table)
    (copy,) = (folder / "code").iterdir()
    copy.write_text("raise SystemExit")
    with pytest.raises(unalike.RunError, match="is no longer the model's file"):
        unalike.load(folder, trust=True)


def test_the_selected_round_survives_an_interruption(tmp_path: Path) -> None:
    """Its models are those of a run that was never interrupted."""
    table, whole = patients(), {}
    rest = {
        "method": "lg_fedavg",
        "rounds": 8,
        "local": {"lr": 2.0},
        "evaluation": {"select": "loss"},
    }
    straight = run(tmp_path / "a", table, **rest)
    summary = json.loads((straight / "summary.json").read_text())
    assert summary["selected"]["round"] < 8, "the point of this test"

    class Stop(Exception):
        pass

    class Stopping:
        def begin(self, *told: object) -> None:
            whole["folder"] = told[2]

        def round(self, record: dict) -> None:
            if record["round"] == 7 and "stopped" not in whole:
                whole["stopped"] = True
                raise Stop

        def stopping(self) -> None:
            pass

    place = tmp_path / "b"
    place.mkdir()
    table.write_csv(place / "patients.csv")
    config = json.loads((straight / "config.json").read_text())
    config["data"]["path"] = str(place / "patients.csv")
    config["run"] |= {"folder": str(place / "run"), "checkpoint_every": 3}
    with pytest.raises(Stop):
        unalike.start(unalike.parse(config), Stopping())
    unalike.resume(place / "run")
    for name in ("personal.safetensors", "selected/personal.safetensors"):
        assert (place / "run" / name).read_bytes() == (straight / name).read_bytes()


def test_another_process_after_the_data_are_gone(tmp_path: Path) -> None:
    table = patients()
    folder = run(tmp_path, table, method="lg_fedavg")
    Path(tmp_path / "patients.csv").unlink()
    table.write_csv(tmp_path / "new.csv")
    ours = unalike.load(folder).personal("north").predict_proba(table)
    code = (
        "import sys, unalike, numpy as np;"
        "north = unalike.load(sys.argv[1]).personal('north');"
        "np.save(sys.argv[3], north.predict_proba(sys.argv[2]))"
    )
    arguments = [str(folder), str(tmp_path / "new.csv"), str(tmp_path / "theirs.npy")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    assert np.array_equal(np.load(tmp_path / "theirs.npy"), ours)


def test_only_the_shared_model_is_kept_if_asked_for(tmp_path: Path) -> None:
    folder = run(tmp_path, patients(), method="superfed_mm", run={"keep": "shared"})
    assert not list(folder.rglob("personal.safetensors"))
    trained = unalike.load(folder)
    assert len(trained.predict(patients())) == 240
    with pytest.raises(unalike.RunError, match="kept no personal models"):
        trained.personal("north").predict(patients())
