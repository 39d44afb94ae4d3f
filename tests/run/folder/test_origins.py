"""A run's own code is part of it: recorded, copied, and asked for when it changed or is strange."""

import json
from pathlib import Path

import pytest
from interrupted import write_toml

from unalike.compare.execution.folder import create, refuse_strangers
from unalike.compare.specification.spec import loads
from unalike.errors import ConfigError, OwnCodeError, RunError
from unalike.run.configuration.config import parse
from unalike.run.execute import Silent, resume, start
from unalike.run.folder import manifest

MODEL = """
from torch import nn

def Model(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.{}(), nn.Linear(8, classes))
"""


class Dies(Silent):
    """The process is gone after round 3."""

    def round(self, record: dict[str, object]) -> None:
        if record["round"] == 3:
            raise ZeroDivisionError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "m.py").write_text(MODEL.format("ReLU"))
    return tmp_path


def killed(place: Path) -> Path:
    """A run with a network of its own that died in its third round; round 2 is saved."""
    raw = {
        "rounds": 4,
        "partition": {"name": "iid", "clients": 3},
        "model": {"name": "module", "file": "m.py"},
        "run": {"folder": "out", "checkpoint_every": 2},
    }
    with pytest.raises(ZeroDivisionError):
        start(parse(raw), Dies())
    return place / "out"


def test_code_is_recorded_and_copied(place: Path) -> None:
    folder = killed(place)
    found = manifest.read(folder)
    assert found is not None
    assert found.code == {"m.py": manifest.digest(place / "m.py")}
    copy = folder / "code" / f"m-{found.code['m.py'][:8]}.py"
    assert copy.read_text() == MODEL.format("ReLU")
    resume(folder)
    assert (folder / "summary.json").exists()


def test_a_change_is_refused_or_asked_for(place: Path) -> None:
    folder = killed(place)
    (place / "m.py").write_text(MODEL.format("Tanh"))
    with pytest.raises(RunError, match=r"'m.py' changed since the run began; restore it from"):
        resume("out")
    assert not (folder / "summary.json").exists()
    resume("out", changed_code=True)
    found = manifest.read(folder)
    assert found is not None
    assert found.finished
    assert found.code == {"m.py": manifest.digest(place / "m.py")}
    assert len(list((folder / "code").iterdir())) == 2  # as it was, and as it is
    assert {name for name in found.files if name.startswith("code/")} == {
        f"code/{path.name}" for path in (folder / "code").iterdir()
    }


def test_code_that_is_gone(place: Path) -> None:
    killed(place)
    (place / "m.py").unlink()
    with pytest.raises(RunError, match=r"'m.py' is gone since the run began; restore it from"):
        resume("out")


def test_what_it_imports_from_beside_it_counts(place: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(place))
    (place / "beside_it.py").write_text("WIDTH = 8\n")
    (place / "m.py").write_text("import beside_it\n" + MODEL.format("ReLU"))
    folder = killed(place)
    found = manifest.read(folder)
    assert found is not None
    assert set(found.code) == {"m.py", str(place / "beside_it.py")}
    (place / "beside_it.py").write_text("WIDTH = 9\n")
    with pytest.raises(RunError, match=r"beside_it.py' changed since the run began"):
        resume("out")


def test_a_stranger_is_asked_about_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = killed(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "somebody else's"))
    (place / "m.py").write_text("raise SystemError('it ran')")
    with pytest.raises(RunError, match=r"names the Python file 'm.py', which would be run"):
        resume("out")
    (place / "m.py").write_text(MODEL.format("ReLU"))
    resume("out", trust=True)
    assert (folder / "summary.json").exists()


def test_without_a_place_for_a_key_one_is_asked(place: Path, monkeypatch) -> None:
    (place / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "file"))
    folder = killed(place)
    found = manifest.read(folder)
    assert found is not None
    assert found.mark == ""
    with pytest.raises(RunError, match="resume with --trust"):
        resume("out")


def test_a_manifest_that_a_stranger_made_up(place: Path) -> None:
    folder = killed(place)
    found = manifest.read(folder)
    assert found is not None
    for forged in (found._replace(mark=""), found._replace(mark="", code={})):
        manifest.save(folder, forged)
        with pytest.raises(RunError, match="resume with --trust"):
            resume("out")


def test_runs_without_code_leave_no_key(place: Path) -> None:
    start(parse({"rounds": 1, "model": "logistic", "run": {"folder": "plain"}}))
    found = json.loads((place / "plain" / "manifest.json").read_text())
    assert (found["code"], found["mark"]) == ({}, "")
    assert not (place / "state").exists()


def test_the_flags_of_the_command(place: Path, unalike) -> None:
    killed(place)
    (place / "m.py").write_text(MODEL.format("Tanh"))
    code, _, said = unalike("resume", "out")
    assert (code, said.count("\n")) == (2, 1)
    assert "resume with --changed-code" in said
    assert unalike("resume", "out", "--changed-code")[0] == 0
    code, shown, _ = unalike("verify", "out")
    assert (code, "'out' is intact: finished" in shown) == (0, True)
    write_toml(place / "out" / "summary.json", {"rounds": 3})
    assert unalike("verify", "out")[0] == 2


COMPARE = """
rounds = 1
partition = {name = "iid", clients = 3}
model = {name = "module", file = "m.py"}
[compare]
methods = ["fedavg"]
seeds = 1
"""


def test_a_stranger_s_comparison_is_asked_about_first(
    place: Path, monkeypatch: pytest.MonkeyPatch, unalike
) -> None:
    made = loads(COMPARE, "mine")
    create(made, place / "out", COMPARE)
    refuse_strangers(made, place / "out")  # one's own is not
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "somebody else's"))
    with pytest.raises(RunError, match=r"use: unalike resume .*out --trust"):
        refuse_strangers(made, place / "out")
    for words in (("resume", "out"), ("compare", "out")):
        code, _, said = unalike(*words)
        assert (code, "names the Python file 'm.py', which would be run" in said) == (2, True)


def test_an_extractor_of_features_is_code(place: Path) -> None:
    (place / "f.py").write_text("def pixels(x):\n    return x.flatten(1)\n")
    made = {"name": "fedcvae", "per_class": 2, "judge_epochs": 1}
    raw = {
        "rounds": 4,
        "partition": {"name": "iid", "clients": 2},
        "model": "logistic",
        "method": made,
        "evaluation": {"fidelity": True, "extractor": "f.py:pixels"},
        "run": {"folder": "out", "checkpoint_every": 2},
    }
    with pytest.raises(ZeroDivisionError):
        start(parse(raw), Dies())
    found = manifest.read(place / "out")
    assert found is not None
    assert found.code == {"f.py": manifest.digest(place / "f.py")}
    (place / "f.py").write_text("def pixels(x):\n    return 2 * x.flatten(1)\n")
    with pytest.raises(RunError, match=r"'f.py' changed since the run began"):
        resume("out")


def test_an_extractor_that_fails_leaves_nothing_behind(place: Path) -> None:
    made = {"name": "fedcvae", "per_class": 2, "judge_epochs": 1}
    raw = {
        "rounds": 1,
        "partition": {"name": "iid", "clients": 2},
        "model": "logistic",
        "method": made,
        "evaluation": {"fidelity": True, "extractor": "f.py:pixels"},
        "run": {"folder": "out"},
    }
    (place / "f.py").write_text("def pixels(x):\n    return x.nothing\n")
    with pytest.raises(
        OwnCodeError, match=r"failed in the features of real examples: Attrib.*f\.py"
    ):
        start(parse(raw))
    assert not (place / "out").exists()
    (place / "f.py").write_text("def pixels(x):\n    return None\n")
    with pytest.raises(ConfigError, match=r"a row of features for each of .* got NoneType"):
        start(parse(raw))
