"""What a person can get wrong: one line that names it, exit code 2, no traceback, no litter."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import TABLE, Unalike, mistake
from interrupted import SMALL, write_toml

Case = tuple[Callable[[Path], list[str]], str]


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


def data_file(name: str) -> Callable[[Path], list[str]]:
    """A command with a table where it wants a configuration."""

    def made(place: Path) -> list[str]:
        (place / "a.csv").write_text(TABLE)
        return [name, "a.csv"]

    return made


SETTINGS: dict[str, Case] = {
    "no such file": (command("run", "nothing.toml"), "there is no file 'nothing.toml'"),
    "a folder": (command("run", "."), "'.' is a folder"),
    "not TOML": (text("rounds = = 3"), "'c.toml' is not valid TOML"),
    "a key twice": (text("rounds = 3\nrounds = 4"), "'c.toml' is not valid TOML"),
    "not text": (text(b"\xff\xfe\x00"), "'c.toml' is not a text file"),
    "unknown setting": (run(rouds=3), "unknown setting 'rouds': did you mean 'rounds'?"),
    "setting of a section on top": (run(lr=3), "did you mean 'local.lr'?"),
    "setting of the data on top": (
        run("missing=impute", data={"name": "files", "path": "a.csv"}),
        "did you mean 'data.missing'?",
    ),
    "setting of a method on top": (run(mu=1, method="fedprox"), "did you mean 'method.mu'?"),
    "unknown in a section": (run(local={"lrr": 1}), "unknown local setting 'lrr'"),
    "wrong type": (
        run(rounds="ten"),
        "number from 1 to 1,000,000,000, got 'ten'",
    ),
    "negative rounds": (
        run(rounds=-1),
        "number from 1 to 1,000,000,000, got -1",
    ),
    "not finite": (text("[local]\nlr = nan"), "'local.lr' must be a number > 0, got nan"),
    "seed too large": (run(seed=2**63), "'seed' must be"),
    "batch size zero": (run(local={"batch_size": 0}), "'local.batch_size' must be"),
    "unknown method": (run(method="fedproxy"), "did you mean 'fedprox'?"),
    "unknown dataset": (run(data="digit"), "unknown data 'digit': did you mean 'digits'?"),
    "unknown partitioner": (run(partition="dirichlett"), "did you mean 'dirichlet'?"),
    "unknown model": (run(model="mlpp"), "unknown model 'mlpp'"),
    "a model by its description": (run(model="linear"), "did you mean 'logistic'?"),
    "unknown topology": (run(topology="rings"), "did you mean 'ring'?"),
    "setting of another method": (run("method.mu=0.1"), "'method.mu': fedavg has no settings"),
    "misspelt name": (run("method.nam=fedavg"), "'method.nam': did you mean 'method.name'?"),
    "misspelt name of data": (run("data.nmae=adult"), "'data.nmae': did you mean 'data.name'?"),
    "plus is not a list": (run(plus="fedprox"), "'plus' must be a list of tables"),
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
    "more phases than clients": (run("method.name=phase_shift", "method.phases=11"), "phases = 11"),
    "ring of two": (run("topology.name=ring", "partition.clients=2"), "a ring needs at least 3"),
    "more servers than clients": (
        run(topology={"name": "clusters", "servers": 11}),
        "topology.servers = 11 is more",
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
        "folder names 'nowhere', which is not a folder",
    ),
    "MNIST is elsewhere": (run(data={"name": "mnist", "folder": "."}), "'.' has no files of mnist"),
}
FILES: dict[str, Case] = {
    "no data file": (run(data={"name": "files", "path": "a.csv"}), "no file or folder 'a.csv'"),
    "no path": (run(data={"name": "files"}), "'data.path' is required"),
    "no label column": (own("a.csv", TABLE, label="labels"), "no column 'labels': did you mean"),
    "no client column": (own("a.csv", TABLE, client="ward"), "no column 'ward'"),
    "missing features": (
        own("a.csv", TABLE + ",1,north,sick\n"),
        "column 'x1' is missing in 1 of 61 rows, first in line 62 of 'a.csv'; "
        "set data.missing = 'impute' or data.drop = ['x1'].",
    ),
    "several columns with gaps": (
        own("a.csv", TABLE + ",,north,sick\n"),
        "first in line 62 of 'a.csv', and others have gaps too: x2; "
        "set data.missing = 'impute' or data.drop = ['x1', 'x2'].",
    ),
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
    "ragged table": (own("a.csv", "x,label\n1,a\n1,2,3\n"), "line 3 has 3 fields where the head"),
    "semicolons": (own("a.csv", TABLE.replace(",", ";")), "seems to be separated by semicolons"),
    "unknown suffix": (own("a.xlsx", "x"), "'a.xlsx' is not a table"),
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
    "model file fails": (module("1 / 0\n"), "division by zero (line 3 of 'net.py')"),
    "model file is no Python": (module("def :\n"), "net.py, line 3"),
    "no such class": (module("x = 1\n"), "no function or class 'Model'"),
    "not a module": (module("def Model(shape, classes): return 3\n"), "must return an nn.Module"),
    "other arguments": (module("def Model(): return 3\n"), "must accept (shape, classes)"),
    "constructor fails": (
        module("def Model(s, c): raise KeyError('k')\n"),
        "KeyError: 'k' (line 3 of 'net.py')",
    ),
    "constructor calls wrongly": (
        module("def Model(s, c):\n return nn.Linear()\n"),
        "arguments: 'in_features' and 'out_features' (line 4 of 'net.py')",
    ),
    "forward fails": (
        module("class Model(nn.Linear):\n def __init__(s, shape, c): super().__init__(64, c)\n"
               " def forward(s, x):\n  n, d = x.shape\n  return super().forward(x)\n"),
        "too many values to unpack (expected 2) (line 6 of 'net.py')",
    ),
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
    "unknown command": (command("rum", "c.toml"), "unknown command 'rum': did you mean 'run'?"),
    "all commands": (
        command("frobnicate"),
        "valid names are advise, check, compare, completion, export, join, "
        "keys, list, peer, predict, report, "
        "resume, run, serve, skew, tune, verify, watch.",
    ),
    "unknown option": (command("run", "c.toml", "--fast"), "--fast"),
    "no file named": (command("run"), "unalike run needs FILE, a TOML file; see: unalike run --he"),
    "no file but settings": (command("tune", "--set", "seed=1"), "unalike tune needs FILE, a TOML"),
    "no folder named": (command("resume"), "unalike resume needs FOLDER, the folder of a run"),
    "no folder to report": (command("report"), "unalike report needs FOLDER"),
    "no folder to watch": (command("watch"), "unalike watch needs FOLDER"),
    "no target": (command("advise"), "unalike advise needs TARGET, a TOML file or a file of data"),
    "nearly a file": (
        lambda place: (write_toml(place / "c.toml", {}), ["run", "c.tml"])[1],
        "there is no file 'c.tml': did you mean 'c.toml'?",
    ),
    "nearly a folder": (
        lambda place: ((place / "runs/mine").mkdir(parents=True), ["resume", "runs/mime/"])[1],
        "there is no run folder 'runs/mime/': did you mean 'runs/mine'?",
    ),
    "no option that is needed": (
        command("export", "run"),
        "unalike export needs --to, a format: torch, safetensors or onnx; see: unalike export",
    ),
    "no sites": (
        command("serve", "c.toml"),
        "unalike serve needs --sites, the names of all sites; see: unalike serve --help.",
    ),
    "no folder of keys": (
        command("keys"),
        "unalike keys needs FOLDER, the folder of the auth",
    ),
    "a setting as an option": (
        command("run", "c.toml", "--rounds", "3"),
        "unalike run has no option '--rounds'; settings are given as --set rounds=VALUE; "
        "see: unalike run --help.",
    ),
    "nearly an option": (
        command("resume", "run", "--trus"),
        "unalike resume has no option '--trus', but '--trust'; see: unalike resume --help.",
    ),
    "no value": (command("run", "c.toml", "--engine"), "unalike run: --engine needs a value; see"),
    "compare a table": (data_file("compare"), "'a.csv' is a file of data"),
    "run a table": (
        data_file("run"),
        "'a.csv' is a file of data; name it in a TOML file, data = { name = 'files', path = "
        "'a.csv', label = 'COLUMN' }, or start with 'unalike advise a.csv'.",
    ),
    "skew of a table": (data_file("skew"), "'a.csv' is a file of data"),
    "tune a table": (data_file("tune"), "'a.csv' is a file of data"),
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
    "picture of unknown kind": (command("skew", "--plot", "p.gif"), "--plot 'p.gif' must end in"),
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


@pytest.mark.parametrize(("made", "named"), calls({**SETTINGS, **FILES, **COMMANDS}))
def test_a_mistake_is_named_and_leaves_nothing_behind(
    made: Callable[[Path], list[str]],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unalike: Unalike,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNALIKE_DATA", raising=False)
    arguments = made(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    said = mistake(unalike, *arguments)
    assert named in said
    left = [p for p in sorted(tmp_path.rglob("*")) if "__pycache__" not in str(p)]
    assert left == before


@pytest.mark.parametrize("plot", ["p.gif", "/proc/nowhere/p.svg"])
def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_printed(
    plot: str, unalike: Unalike
):
    assert unalike("skew", "--plot", plot)[:2] == (2, "")


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
    unalike: Unalike,
):
    monkeypatch.chdir(tmp_path)
    write_toml(tmp_path / "c.toml", {**SMALL, **settings})
    code, _, said = unalike("run", "c.toml")
    assert code == 2
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
