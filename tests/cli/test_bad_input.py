"""What a person can get wrong: one line that names it, exit code 2, no traceback, no litter."""

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from interrupted import SMALL, raw, write_toml
from safetensors.torch import load_file, save_file

from unalike.cli.main import main
from unalike.engine.loop import Loop
from unalike.run.config import parse
from unalike.run.execute import start

Case = tuple[Callable[[Path], list[str]], str]
TABLE = "x1,x2,hospital,label\n" + "".join(
    f"{i % 7},{i % 5 - 2},{'north' if i % 2 else 'south'},{'sick' if i % 3 else 'well'}\n"
    for i in range(60)
)


def run(*overrides: str, **settings: Any) -> Callable[[Path], list[str]]:
    """``unalike run`` of a file with these settings."""

    def made(place: Path) -> list[str]:
        write_toml(place / "c.toml", {"rounds": 2, **settings})
        return ["run", "c.toml", *(["--set", *overrides] if overrides else [])]

    return made


def text(content: str | bytes) -> Callable[[Path], list[str]]:
    """``unalike run`` of a file that holds this."""

    def made(place: Path) -> list[str]:
        (place / "c.toml").write_bytes(content.encode() if isinstance(content, str) else content)
        return ["run", "c.toml"]

    return made


def command(*arguments: str) -> Callable[[Path], list[str]]:
    return lambda place: list(arguments)


def own(name: str, content: str | bytes | dict[str, Any], **settings: Any) -> Callable[[Path], Any]:
    """``unalike run`` on a data file of one's own."""

    def made(place: Path) -> list[str]:
        path = place / name
        if isinstance(content, dict):
            np.savez(path, **content)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        (place / "other.csv").write_text("x1,label\n1,sick\n")
        data = {"name": "files", "path": name, **settings}
        return run(data=data, partition={"clients": 3}, model="logistic")(place)

    return made


def module(code: str, *overrides: str, **settings: Any) -> Callable[[Path], list[str]]:
    """``unalike run`` with a model of one's own."""

    def made(place: Path) -> list[str]:
        (place / "net.py").write_text("import torch\nfrom torch import nn\n" + code)
        return run(*overrides, model={"name": "module", "file": "net.py", **settings})(place)

    return made


SETTINGS: dict[str, Case] = {
    "no such file": (command("run", "nothing.toml"), "there is no file 'nothing.toml'"),
    "a folder": (command("run", "."), "'.' is a folder"),
    "not TOML": (text("rounds = = 3"), "'c.toml' is not valid TOML"),
    "a key twice": (text("rounds = 3\nrounds = 4"), "'c.toml' is not valid TOML"),
    "not text": (text(b"\xff\xfe\x00"), "'c.toml' is not a text file"),
    "unknown setting": (run(rouds=3), "unknown setting 'rouds': did you mean 'rounds'?"),
    "setting of a section on top": (run(lr=3), "did you mean 'local.lr'?"),
    "unknown in a section": (run(local={"lrr": 1}), "unknown local setting 'lrr'"),
    "wrong type": (run(rounds="ten"), "'rounds' must be a whole number >= 1, got 'ten'"),
    "negative rounds": (run(rounds=-1), "'rounds' must be a whole number >= 1, got -1"),
    "not finite": (text("[local]\nlr = nan"), "'local.lr' must be a number > 0, got nan"),
    "seed too large": (run(seed=2**63), "'seed' must be"),
    "batch size zero": (run(local={"batch_size": 0}), "'local.batch_size' must be"),
    "unknown method": (run(method="fedproxy"), "did you mean 'fedprox'?"),
    "unknown dataset": (run(data="digit"), "unknown data 'digit': did you mean 'digits'?"),
    "unknown partitioner": (run(partition="dirichlett"), "did you mean 'dirichlet'?"),
    "unknown model": (run(model="mlpp"), "unknown model 'mlpp'"),
    "unknown topology": (run(topology="rings"), "did you mean 'ring'?"),
    "setting of another method": (run("method.mu=0.1"), "'method.mu': fedavg has no settings"),
    "plus is no list": (run(plus="fedprox"), "'plus' must be a list of tables"),
    "shares above one": (run(split={"test": 0.6, "validation": 0.6}), "'split': validation"),
    "nesterov alone": (run(local={"nesterov": True}), "'local': nesterov"),
    "two servers' steps": (
        run(method="fedadam", plus=["fedyogi"]),
        "methods 'fedadam' and 'fedyogi' both set the server",
    ),
    "method and topology": (
        run(method="phase_shift", topology="ring"),
        "method 'phase_shift' cannot run on topology 'ring'",
    ),
    "target in per cent": (run("evaluation.target=80"), "evaluation.target is 80, and an accuracy"),
    "number of many": (run("participation.number=11"), "participation.number is 11"),
    "phases do not divide": (run("method.name=phase_shift", "method.phases=3"), "phases = 3"),
    "ring of two": (run("topology.name=ring", "partition.clients=2"), "a ring needs at least 3"),
    "more servers than clients": (
        run(topology={"name": "clusters", "servers": 11}),
        "topology.servers is 11",
    ),
    "too many answers wanted": (run("faults.min_replies=11"), "faults.min_replies is 11"),
    "more clients than examples": (run("partition.clients=5000"), "5000 clients"),
    "all clients new": (run("split.new_clients=10"), "new_clients must be 0 to 9"),
    "nothing to test on": (run("split.test=0.0"), "nothing to test on"),
    "no natural clients": (run(partition="natural"), "natural: these data have no natural clients"),
    "unreachable EMD": (run(partition={"name": "emd", "target": 1.9}), "a target of 1.9 cannot"),
    "no such layer": (
        run(method={"name": "lg_fedavg", "shared": ["top"]}),
        "method.shared names 'top'",
    ),
    "model for other inputs": (run(model="stacked_lstm"), "stacked_lstm"),
    "image too small": (run(model="feddisco_cnn"), "feddisco_cnn cannot take inputs of shape"),
    "no CUDA": (run("engine.device=cuda:7"), "engine.device is 'cuda:7'"),
    "unknown device": (run("engine.device=tpu3"), "engine.device 'tpu3'"),
    "unsupported device": (run("engine.device=meta"), "engine.device 'meta'"),
    "override without value": (run("rounds"), "--set 'rounds' is not of the form key=value"),
    "override of an element": (run("plus.0.mu=1"), "there is no element '0' in a list of 0"),
    "override unknown": (run("local.speed=1"), "unknown local setting 'speed'"),
    "MNIST is not there": (
        run(data={"name": "mnist", "folder": "nowhere"}),
        "folder names 'nowhere', which is no folder",
    ),
    "MNIST is elsewhere": (run(data={"name": "mnist", "folder": "."}), "'.' has no files of mnist"),
}
FILES: dict[str, Case] = {
    "no data file": (run(data={"name": "files", "path": "a.csv"}), "no file or folder 'a.csv'"),
    "no path": (run(data={"name": "files"}), "'data.path' is required"),
    "no label column": (own("a.csv", TABLE, label="labels"), "no column 'labels': did you mean"),
    "no client column": (own("a.csv", TABLE, client="ward"), "no column 'ward'"),
    "missing features": (own("a.csv", TABLE + ",1,north,sick\n"), "column 'x1' is missing in 1"),
    "missing label": (own("a.csv", TABLE + "1,1,north,\n"), "the labels must not be missing"),
    "one class": (own("a.csv", "x,label\n" + "1,a\n" * 9), "all 9 labels are 'a'"),
    "measurements as labels": (
        own("a.csv", "x,label\n" + "".join(f"1,{i}\n" for i in range(40))),
        "look like measurements",
    ),
    "negative labels": (own("a.csv", "x,label\n1,-1\n2,1\n"), "labels must not be negative"),
    "empty table": (own("a.csv", ""), "'a.csv' cannot be read as a table"),
    "head without rows": (own("a.csv", "x,label\n"), "the table has no rows"),
    "only labels": (own("a.csv", "label\na\nb\n"), "no feature besides its label"),
    "ragged table": (own("a.csv", "x,label\n1,a\n1,2,3\n"), "'a.csv' cannot be read as a table"),
    "unknown suffix": (own("a.xlsx", "x"), "'a.xlsx' is no table"),
    "setting of other files": (own("a.csv", TABLE, layout="NHW"), "'layout' means nothing"),
    "test table of other columns": (own("a.csv", TABLE, test_path="other.csv"), "no column 'x2'"),
    "not NPZ": (own("a.npz", b"PK not really"), "'a.npz'"),
    "NPZ without arrays": (own("a.npz", {"z": [1]}), "'a.npz'"),
    "NPZ of two lengths": (own("a.npz", {"x": np.ones((9, 2)), "y": [0, 1]}), "9"),
    "NPZ with NaN": (
        own("a.npz", {"x": np.full((9, 2), np.nan), "y": [0, 1, 0] * 3}),
        "x",
    ),
    "NPZ of text": (own("a.npz", {"x": [["a"]] * 9, "y": [0, 1, 0] * 3}), "must be numbers"),
    "no model file": (run(model={"name": "module", "file": "n.py"}), "'n.py', which does not"),
    "model file fails": (module("1 / 0\n"), "ZeroDivisionError"),
    "no such class": (module("x = 1\n"), "no function or class 'Model'"),
    "not a module": (module("def Model(shape, classes): return 3\n"), "must return an nn.Module"),
    "other arguments": (module("def Model(): return 3\n"), "must accept (shape, classes)"),
    "constructor fails": (module("def Model(s, c): raise KeyError('k')\n"), "KeyError"),
    "too few outputs": (
        module("def Model(s, c): return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))\n"),
        "gives outputs of shape (2, 3)",
    ),
    "shapes do not fit": (module("def Model(s, c): return nn.Linear(5, c)\n"), "RuntimeError"),
    "nothing to train": (
        module("class Model(nn.Module):\n def __init__(s, *a): super().__init__()\n"
               " def forward(s, x): return x.flatten(1)[:, :10]\n"),
        "no weights to train",
    ),
    "not a tensor": (
        module("class Model(nn.Module):\n def __init__(s, *a):\n  super().__init__()\n"
               "  s.l = nn.Linear(64, 10)\n def forward(s, x): return {'o': s.l(x.flatten(1))}\n"),
        "must give a tensor of logits, got dict",
    ),
    "cannot be vectorized": (
        module("class Model(nn.Module):\n def __init__(s, *a):\n  super().__init__()\n"
               "  s.l = nn.Linear(64, 10)\n"
               " def forward(s, x): return s.l(x.flatten(1)) * s.l.weight.sum().item()\n",
               "engine.kind=vectorized"),
        "set engine.kind = 'sequential'",
    ),
}  # fmt: skip
COMMANDS: dict[str, Case] = {
    "unknown command": (command("rum", "c.toml"), 'Unknown command "rum"'),
    "unknown option": (command("run", "c.toml", "--fast"), "--fast"),
    "no file named": (command("run"), "--file requires an argument"),
    "too many files": (command("run", "a", "b"), "'b'"),
    "unknown engine": (
        lambda place: [*run()(place), "--engine", "parallel"],
        '\'engine.kind\' must be "auto", "sequential" or "vectorized", got \'parallel\'',
    ),
    "list nonsense": (command("list", "fedproxx"), "unknown name 'fedproxx': did you mean"),
    "skew beyond reach": (command("skew", "--target", "1.9"), "no sampler reaches EMD 1.9"),
    "skew of no number": (command("skew", "--target", "nan"), "no sampler reaches EMD nan"),
    "skew as text": (command("skew", "--target", "much"), "--target"),
    "skew of no clients": (command("skew", "--target", "1", "--clients", "0"), "at least 1 client"),
    "skew of a file and a target": (command("skew", "c.toml", "--target", "1"), "leave out"),
    "picture of unknown kind": (command("skew", "--plot", "p.bmp"), "'p.bmp'"),
    "picture nowhere": (command("skew", "--plot", "/proc/nowhere/p.svg"), "cannot be written"),
    "folder is a file": (
        lambda place: [(place / "f").write_text(""), *run("run.folder=f")(place)][1:],
        "run.folder 'f' is a file",
    ),
    "folder under a file": (
        lambda place: [(place / "f").write_text(""), *run("run.folder=f/g")(place)][1:],
        "cannot be made",
    ),
    "folder in a system's own": (run("run.folder=/proc/nowhere"), "'/proc/nowhere' cannot be made"),
    "folder with NUL": (text('[run]\nfolder = "a\\u0000b"'), "cannot be a folder"),
    "folder is in use": (run("run.folder=."), "'.' is not empty"),
    "runs is a file": (
        lambda place: [(place / "runs").write_text(""), *run()(place)][1:],
        "'runs",
    ),
    "resume nothing": (command("resume", "nowhere"), "there is no run folder 'nowhere'"),
    "resume a folder of something": (command("resume", "."), "it has no config.json"),
}


def calls(table: dict[str, Case]) -> list[Any]:
    return [pytest.param(*case, id=name) for name, case in table.items()]


def mistake(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """What ``unalike`` says, which must be one line of the right kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["unalike", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    out, said = capsys.readouterr()
    assert end.value.code == 2, said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert said.rstrip().endswith((".", "?"))
    assert "Traceback" not in said + out
    return said


@pytest.mark.parametrize(("made", "named"), calls({**SETTINGS, **FILES, **COMMANDS}))
def test_a_mistake_is_named_and_leaves_nothing_behind(
    made: Callable[[Path], list[str]],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNALIKE_DATA", raising=False)
    arguments = made(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    said = mistake(capsys, arguments)
    assert named in said
    left = [p for p in sorted(tmp_path.rglob("*")) if "__pycache__" not in str(p)]
    assert left == before


# Folders of runs, tampered with.


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table of one's own that died in its fourth round."""
    place = tmp_path_factory.mktemp("stopped")
    (place / "a.csv").write_text(TABLE)
    data = {"name": "files", "path": str(place / "a.csv"), "client": "hospital"}
    changes = {"data": data, "partition": "natural", "model": "logistic", "method": "scaffold"}
    changes |= {"participation": {}, "faults": {}}
    advance = Loop.advance

    def dying(self: Loop, state: Any, t: int) -> Any:
        if t == 3:
            raise ZeroDivisionError
        return advance(self, state, t)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "advance", dying)
        with pytest.raises(ZeroDivisionError):
            start(parse(raw(place / "run", changes)))
    return place


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    shutil.copytree(stopped / "run", tmp_path / "run")
    return tmp_path / "run"


STATE = "checkpoint/state.safetensors"


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def spoil(place: Path) -> None:
        (place / name).write_bytes(change((place / name).read_bytes()))

    return spoil


def setting(key: str, value: Any) -> Callable[[Path], None]:
    """Another value in config.json."""

    def spoil(place: Path) -> None:
        config = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps({**config, key: value}, indent=2))

    return spoil


def tensors(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], **notes: str | None
) -> Callable[[Path], None]:
    """Other tensors, or other notes, in an intact safetensors file."""

    def spoil(place: Path) -> None:
        from safetensors import safe_open

        with safe_open(place / STATE, "pt") as f:
            found = {k: v for k, v in {**f.metadata(), **notes}.items() if v is not None}
        save_file(change(load_file(place / STATE)), place / STATE, found)

    return spoil


def same(flat: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return flat


SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (lambda p: (p / "config.json").unlink(), "it has no config.json"),
    "config is a folder": (
        lambda p: (p / "config.json").rename(p / "other") and (p / "config.json").mkdir(),
        "config.json' cannot be read",
    ),
    "config is cut": (edit("config.json", lambda b: b[:50]), "config.json' is damaged"),
    "config is binary": (edit("config.json", lambda b: b"\xff\xfe"), "config.json' is damaged"),
    "config is a list": (edit("config.json", lambda b: b"[1]"), "is not a configuration"),
    "config has a new key": (setting("speed", 3), "was changed: unknown setting 'speed'"),
    "config is out of range": (setting("rounds", 0), "was changed: 'rounds' must be"),
    "config has other rounds": (setting("rounds", 7), "config.json' was changed"),
    "config has another seed": (setting("seed", 7), "config.json' was changed"),
    "config is respelled": (edit("config.json", lambda b: b + b"\n"), "config.json' was changed"),
    "rounds are cut": (edit("rounds.jsonl", lambda b: b[:100]), "rounds.jsonl' is not what"),
    "rounds are edited": (
        edit("rounds.jsonl", lambda b: b.replace(b'"round": 1', b'"round": 9')),
        "rounds.jsonl' is not what",
    ),
    "rounds are gone": (lambda p: (p / "rounds.jsonl").unlink(), "rounds.jsonl' is not what"),
    "clients are edited": (
        edit("clients.jsonl", lambda b: b.replace(b"0.", b"1.", 1)),
        "clients.jsonl' is not what",
    ),
    "clients are gone": (lambda p: (p / "clients.jsonl").unlink(), "clients.jsonl' is not what"),
    "checkpoint is cut": (edit(STATE, lambda b: b[: len(b) // 2]), "state.safetensors' is damaged"),
    "checkpoint is empty": (edit(STATE, lambda b: b""), "state.safetensors' is damaged"),
    "checkpoint is text": (edit(STATE, lambda b: b"hello, hello"), "state.safetensors' is damaged"),
    "checkpoint is foreign": (
        lambda p: save_file({"a": torch.ones(2)}, p / STATE),
        "no checkpoint of this version",
    ),
    "checkpoint of another version": (tensors(same, format="0"), "no checkpoint of this version"),
    "checkpoint without a round": (tensors(same, round=None), "does not hold the state"),
    "checkpoint with a strange round": (tensors(same, round="two"), "does not hold the state"),
    "checkpoint without logs": (
        tensors(same, **{"rounds.jsonl:size": None}),
        "does not hold the state",
    ),
    "checkpoint of other shapes": (
        tensors(lambda flat: {k: torch.zeros(*v.shape, 2) for k, v in flat.items()}),
        "does not hold the state",
    ),
    "checkpoint of other numbers": (
        tensors(lambda flat: {k: v.double() for k, v in flat.items()}),
        "does not hold the state",
    ),
    "checkpoint lacks a tensor": (
        tensors(lambda flat: dict(list(flat.items())[:-1])),
        "does not hold the state",
    ),
    "checkpoint of a client too many": (
        tensors(
            lambda flat: flat | {k.replace("kept/0", "kept/9"): v.clone() for k, v in flat.items()}
        ),
        "does not hold the state",
    ),
    "checkpoint of other data": (tensors(same, data="0"), "the data changed"),
}


@pytest.mark.parametrize(("spoil", "named"), SPOILED.values(), ids=SPOILED)
def test_a_folder_that_was_tampered_with(
    spoil: Callable[[Path], None],
    named: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
):
    spoil(folder)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert named in mistake(capsys, ["resume", str(folder)])
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert after == before | {folder / ".lock": b""}


def test_data_that_changed_since(stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(stopped, tmp_path / "here")
    place = tmp_path / "here"
    config = (place / "run" / "config.json").read_text()
    (place / "run" / "config.json").write_text(config)
    table = (stopped / "a.csv").read_text()
    (stopped / "a.csv").write_text(table.replace("0,0,north,sick", "5,0,north,sick", 1))
    try:
        said = mistake(capsys, ["resume", str(place / "run")])
    finally:
        (stopped / "a.csv").write_text(table)
    assert "the data changed" in said


def test_a_folder_in_use(folder: Path, capsys: pytest.CaptureFixture[str]):
    with (folder / ".lock").open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        assert "is in use by another process" in mistake(capsys, ["resume", str(folder)])


def test_a_file_instead_of_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert "there is no run folder" in mistake(capsys, ["resume", str(folder / "config.json")])


def test_a_new_run_over_an_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(folder.parent)
    said = mistake(capsys, run("run.folder=run")(folder.parent))
    assert "'run' holds a run already: go on with 'unalike resume run'" in said


def test_a_disk_that_is_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    said = mistake(capsys, ["resume", str(folder)])
    assert "cannot be written: No space left on device" in said


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {"local": {"lr": 1e25, "batch_size": 2000}, "faults": {}},
            "training has diverged; lower local.lr",
        ),
        ({"faults": {"drop": 1.0, "too_few": "stop"}}, "round 1 got 0 usable answers"),
    ],
)
def test_training_that_cannot_go_on(
    settings: dict[str, Any],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    write_toml(tmp_path / "c.toml", {**SMALL, **settings})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["unalike", "run", "c.toml"])
        with pytest.raises(SystemExit) as end:
            main()
    _, said = capsys.readouterr()
    assert end.value.code == 2
    assert named in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("process")


@pytest.mark.parametrize("name", ["unknown setting", "unknown command", "resume nothing"])
def test_the_same_in_a_process_of_its_own(name: str, place: Path):
    made, named = {**SETTINGS, **COMMANDS}[name]
    done = subprocess.run(
        [sys.executable, "-m", "unalike.cli.main", *made(place)],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert named in done.stderr


def test_there_are_many_cases():
    assert len({**SETTINGS, **FILES, **COMMANDS}) + len(SPOILED) >= 100
