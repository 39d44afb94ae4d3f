"""``unalike compare`` and ``unalike resume`` as they are typed, without starting processes."""

from pathlib import Path
from shutil import copytree

import pytest
from command_line import mistake
from comparisons import TINY, run_here

from unalike.cli.comparing import source
from unalike.compare.analysis.claims import Analysis
from unalike.compare.execution import folder as place
from unalike.compare.execution.conduct import Outcome
from unalike.compare.presets import names
from unalike.compare.specification.spec import Comparison, loads
from unalike.errors import RunError


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison that has nothing left to do."""
    folder = tmp_path_factory.mktemp("finished") / "a"
    text = f'{TINY}\n[compare]\ntitle = "Tiny"\nmethods = ["fedavg", "fedprox"]\nseeds = 2'
    run_here(place.create(loads(text, "tiny"), folder, text), folder)
    return folder


def test_list_shows_every_preset_with_its_question(unalike):
    code, out, _ = unalike("compare", "--list")
    assert code == 0
    for name in names():
        assert name in out
    assert "Which method suits clients whose digits are not alike" in " ".join(out.split())


def test_where_every_cell_fails_the_reason_is_said(unalike, tmp_path, monkeypatch):
    failed = Outcome(Analysis([], []), {"fedavg--seed0": "all clients dropped out."})
    monkeypatch.setattr("unalike.compare.execution.conduct.conduct_held", lambda *a, **k: failed)
    (tmp_path / "a.toml").write_text(f'{TINY}\n[compare]\nmethods = ["fedavg"]\nseeds = 1')
    arguments = ("--folder", str(tmp_path / "out"))
    code, _, err = unalike("compare", str(tmp_path / "a.toml"), *arguments)
    assert code == 2
    assert "cell 'fedavg--seed0' failed: all clients dropped out; try again with" in err


def test_a_finished_folder_shows_its_tables_again(unalike, finished):
    folder = finished
    for words in (("compare",), ("resume",)):
        code, out, err = unalike(*words, str(folder))
        assert (code, err) == (0, "")
        assert "Tiny" in out
        assert "fedprox" in out
        assert "win" in out or "tie" in out or "loss" in out
        assert f"tables and runs: {folder}" in out


def test_the_same_file_finds_its_folder_again(unalike, finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copytree(finished, tmp_path / "runs" / "compare-tiny")
    text = (tmp_path / "runs" / "compare-tiny" / "compare.toml").read_text()
    (tmp_path / "tiny.toml").write_text(text)
    code, out, _ = unalike("compare", "tiny.toml")
    assert code == 0
    assert "tables and runs: runs/compare-tiny" in out


def test_a_begun_comparison_cannot_be_changed_on_the_way(unalike, finished):
    code, _, err = unalike("compare", str(finished), "--set", "rounds=9")
    assert code == 2
    assert "continue it without --set, --folder and --scale" in err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "name a preset, a TOML file or a comparison's folder"),
        (("quickstrt",), "did you mean 'quickstart'"),
        (("none.toml",), "there is no file 'none.toml'"),
        (("quickstart", "--scale", "large"), "unknown scale 'large'"),
        (("quickstart", "--set", "roundz=3"), "roundz"),
        (("quickstart", "--processes", "-1"), "processes"),
        ((".",), "is a folder without compare.json"),
    ],
)
def test_mistakes_are_one_sentence_and_code_two(unalike, tmp_path, monkeypatch, arguments, part):
    monkeypatch.chdir(tmp_path)
    code, out, err = unalike("compare", *arguments)
    assert code == 2
    assert part in err
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in out + err
    assert not (tmp_path / "runs").exists()


def test_a_file_comes_before_a_preset_only_by_its_ending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").mkdir()
    assert source("quickstart")[1:] == ("quickstart", True)
    Path("quickstart.toml").write_text("x = 1")
    assert source("quickstart.toml") == ("x = 1", "quickstart", False)


@pytest.mark.parametrize("preset", [True, False])
def test_the_folder_remembers_whether_it_was_a_preset(unalike, tmp_path, monkeypatch, preset):
    """And while a comparison runs nobody else describes its folder."""
    monkeypatch.chdir(tmp_path)
    Path("quickstart.toml").write_text(f'{TINY}\n[compare]\nmethods = ["fedavg"]\nseeds = 1')
    folder = tmp_path / "runs" / "compare-quickstart"

    def held(made: Comparison, at: Path, *more: object) -> Outcome:
        with pytest.raises(RunError, match="in use by another process"):
            place.create(made, at, "")
        return Outcome(Analysis([], []), {"x": "no."})

    monkeypatch.setattr("unalike.compare.execution.conduct.conduct_held", held)
    for arguments in (("quickstart" if preset else "quickstart.toml",), (str(folder),)):
        code, _, err = unalike("compare", *arguments)
        assert code == 2
        assert "cell 'x' failed: no" in err
    assert place.read(folder).source["preset"] is preset


def test_a_comparison_that_is_refused_leaves_the_folder_as_it_was(unalike, finished, tmp_path):
    text = (finished / "compare.toml").read_text()
    more = '"fedavg", { name = "lg_fedavg", warm_start = 9 }'
    (tmp_path / "a.toml").write_text(text.replace('"fedavg"', more))
    for folder in (tmp_path / "runs" / "new", copytree(finished, tmp_path / "old")):
        before = tree(folder)
        said = mistake(unalike, "compare", str(tmp_path / "a.toml"), "--folder", str(folder))
        assert "method.warm_start of 'lg_fedavg' is 9 of 3 rounds" in said
        assert tree(folder) == before
    assert not (tmp_path / "runs").exists()
    assert unalike("compare", str(tmp_path / "old"))[0] == 0


def tree(folder: Path) -> dict[Path, bytes]:
    """Every file of a folder."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_that_cannot_be_made_is_one_sentence(unalike, tmp_path):
    (tmp_path / "a.toml").write_text(f'{TINY}\n[compare]\nmethods = ["fedavg"]')
    said = mistake(unalike, "compare", str(tmp_path / "a.toml"), "--folder", "/proc/x")
    assert "the folder '/proc/x' cannot be made" in said
    assert "unknown preset" in mistake(unalike, "compare", "a" * 300)
