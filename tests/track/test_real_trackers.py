"""MLflow and Weights & Biases themselves: what arrives in them is read back.

Left out where they are not installed; ``docs/how-to-track-runs.md`` says how to install them.
"""

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unalike.run.configuration.config import parse
from unalike.run.configuration.dotted import flat
from unalike.run.execute import Silent
from unalike.run.folder.records import read_json, read_lines
from unalike.track.running import resume, start

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # theirs are not ours to refuse
]
ROUNDS = 3
NAMES = ["local/accuracy", "local/accuracy_worst10", "global/loss", "bytes", "samples"]


def tiny(folder, tracker):
    return parse(
        {
            "rounds": ROUNDS,
            "partition": {"name": "dirichlet", "clients": 4, "min_size": 10},
            "model": {"name": "mlp", "hidden": [4]},
            "plus": [{"name": "fedprox"}],
            "run": {"folder": str(folder), "checkpoint_every": 1},
            "track": {"to": [tracker], "project": "hospitals"},
        }
    )


class Falls(Silent):
    """The process dies after round 2 was logged, before it was saved."""

    def round(self, record):
        if record["round"] == 2:
            raise KeyboardInterrupt


def interrupted(config):
    with pytest.raises(KeyboardInterrupt):
        start(config, Falls())
    time.sleep(1.1)  # W&B names a process's file by its second
    return resume(config.run.folder)


def written(folder):
    """Round -> the numbers of ``NAMES`` as the run folder has them."""
    out, sent, samples = {}, 0, 0
    for r in read_lines(folder / "rounds.jsonl"):
        local, pooled = r["metrics"]["local"]["accuracy"], r["metrics"]["global"]["loss"]
        sent += r["bytes_down"] + r["bytes_up"] + r["bytes_across"]
        samples += r["samples"]
        out[r["round"]] = [local["mean"], local["worst10"], pooled["mean"], sent, samples]
    return out


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    library = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.chdir(tmp_path)  # where artifacts go
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/tracked.db")
    return library


def tracked(mlflow, project):
    client = mlflow.MlflowClient()
    return client, client.search_runs([client.get_experiment_by_name(project).experiment_id])


def test_mlflow_holds_each_round_once_although_the_run_was_interrupted(mlflow, tmp_path):
    config = tiny(tmp_path / "a", "mlflow")
    folder = interrupted(config)
    client, (run,) = tracked(mlflow, "hospitals")
    assert (run.info.run_name, run.info.status) == ("a", "FINISHED")
    assert run.data.params == {k: str(v) for k, v in flat(config.resolved(), lists=True).items()}
    history = {name: client.get_metric_history(run.info.run_id, name) for name in NAMES}
    assert all([p.step for p in points] == [1, 2, 3] for points in history.values())
    found = {step: [history[name][step - 1].value for name in NAMES] for step in (1, 2, 3)}
    assert found == written(folder)
    local = client.download_artifacts(run.info.run_id, "summary.json", str(tmp_path))
    assert json.loads(Path(local).read_text()) == read_json(folder / "summary.json")


def test_mlflow_has_every_cell_of_a_comparison_although_they_begin_at_once(mlflow, tmp_path):
    (tmp_path / "c.toml").write_text(
        'rounds = 1\nmodel = "logistic"\npartition = { name = "iid", clients = 3 }\n'
        'track = { to = ["mlflow"] }\n[compare]\nmethods = ["fedavg", "fedprox"]\nseeds = 2\n'
    )
    command = [sys.executable, "-m", "unalike.cli.main", "compare", "c.toml", "--processes", "2"]
    subprocess.run([*command, "--folder", "c"], check=True, capture_output=True, timeout=200)
    _, runs = tracked(mlflow, "unalike")
    assert sorted(run.info.run_name for run in runs) == sorted(
        f"{method}--iid--seed{seed}" for method in ("fedavg", "fedprox") for seed in (0, 1)
    )
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_mlflow_leaves_the_programs_own_run_alone(mlflow, tmp_path):
    with mlflow.start_run() as mine:
        start(tiny(tmp_path / "a", "mlflow"))
        assert mlflow.active_run().info.run_id == mine.info.run_id
    _, (child,) = tracked(mlflow, "hospitals")
    assert child.data.tags["mlflow.parentRunId"] == mine.info.run_id
    assert not mlflow.MlflowClient().get_run(mine.info.run_id).data.metrics


def test_a_run_outlives_an_mlflow_server_that_is_away(mlflow, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.warns(
        UserWarning, match="tracker 'mlflow' failed .* the run continues: API request"
    ):
        folder = start(tiny(tmp_path / "a", "mlflow"))
    assert read_json(folder / "summary.json")["rounds"] == ROUNDS


@pytest.fixture
def wandb(tmp_path, monkeypatch):
    library = pytest.importorskip("wandb", reason="Weights & Biases is not installed")
    monkeypatch.setenv("HOME", str(tmp_path))  # nobody is logged in
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    yield library
    library.teardown()  # it reads the environment once


def offline(path):
    """The records of a .wandb file, a log in the format of LevelDB behind seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    raw, at, whole, block = path.read_bytes(), 7, b"", 1 << 15
    while at + 7 <= len(raw):
        if block - at % block < 7:  # no room for a header: the next block
            at += block - at % block
            continue
        length, kind = struct.unpack_from("<HB", raw, at + 4)
        whole, at = whole + raw[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield Record.FromString(whole)
            whole = b""


def test_wandb_goes_on_in_the_same_run(wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    config = tiny(tmp_path / "a", "wandb")
    folder = interrupted(config)
    wandb.teardown()  # its process closes the files when it ends
    files = sorted((folder / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2  # a process each
    found, exits = {}, []
    for path in files:
        for record in offline(path):
            if record.HasField("run"):
                assert record.run.run_id == read_json(folder / "track.json")["wandb"]
                assert (record.run.project, record.run.display_name) == ("hospitals", "a")
                told = {u.key: json.loads(u.value_json) for u in record.run.config.update}
                assert {k: told[k] for k in config.resolved()} == config.resolved()
            if record.HasField("history"):
                row = {i.key or i.nested_key[0]: i.value_json for i in record.history.item}
                step, values = int(row["_step"]), [json.loads(row[name]) for name in NAMES]
                assert found.setdefault(step, values) == values  # a repeated round repeats itself
            if record.HasField("exit"):
                exits.append(record.exit.exit_code)
    assert found == written(folder)
    assert exits == [1, 0]
    saved = files[1].parent / "files" / "summary.json"
    assert read_json(saved) == read_json(folder / "summary.json")


def test_a_run_outlives_weights_and_biases_without_a_login(wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    with pytest.warns(UserWarning, match="tracker 'wandb' failed .* the run continues: No API key"):
        folder = start(tiny(tmp_path / "a", "wandb"))
    assert read_json(folder / "summary.json")["rounds"] == ROUNDS
