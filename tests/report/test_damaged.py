"""Damaged records never break a report or whoever watches: one sentence that names the file."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Unalike, mistake
from interrupted import raw

from unalike.errors import RunError
from unalike.report.live import Desk
from unalike.run.configuration.config import parse
from unalike.run.execute import start

DEEP = "[" * 200_000
DAMAGE: dict[str, tuple[str, str]] = {
    "a round that is a number": ("rounds.jsonl", "5\n"),
    "a round of nothing": ("rounds.jsonl", "{}\n"),
    "a round that is a list": ("rounds.jsonl", "[]\n{}\n"),
    "metrics of one kind": ("rounds.jsonl", '{"round":1,"metrics":{"local":{"accuracy":NaN}}}\n'),
    "deep rounds": ("rounds.jsonl", DEEP + "\n{}\n"),
    "a summary that is a list": ("summary.json", "[]"),
    "a summary of nothing": ("summary.json", "{}"),
    "no summary": ("summary.json", "null"),
    "a summary of digits": ("summary.json", "9" * 5000),
    "a skew that is a list": ("skew.json", "[1]"),
    "a skew of nothing": ("skew.json", "{}"),
    "no skew": ("skew.json", "null"),
    "an environment that is a list": ("environment.json", "[1]"),
    "half a client": ("clients.jsonl", '{"round": 6, }\n'),
    "clients of another kind": ("clients.jsonl", '{"round": 6,"x":1}\n'),
    "a method that is a number": ("config.json", '{"method":1}'),
    "a method and nothing else": ("config.json", '{"method":{"name":"x"}}'),
    "deep configuration": ("config.json", DEEP),
    "a line that is no timing": ("timing.jsonl", "{}\n[1]\n5\n"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(parse(raw(tmp_path_factory.mktemp("report") / "run", {"faults": {}})))


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("name", DAMAGE)
def test_reports(name: str, folder: Path, unalike: Unalike) -> None:
    file, text = DAMAGE[name]
    (folder / file).write_text(text)
    code, _, said = unalike("report", str(folder))
    if code == 0:  # what is damaged is not in it
        assert file in ("timing.jsonl", "environment.json", "skew.json", "clients.jsonl")
        return
    assert (code, said.count("\n"), "Traceback" in said) == (2, 1, False), said
    assert file in said


@pytest.mark.parametrize("name", ["a summary of nothing", "a round of nothing", "no skew"])
def test_watching_goes_on_when_it_is_repaired(name: str, folder: Path) -> None:
    desk = Desk(folder)
    file, text = DAMAGE[name]
    whole = (folder / file).read_text()
    (folder / file).write_text(text)
    desk.next = 0
    with pytest.raises(RunError, match=file):
        desk.current()
    (folder / file).write_text(whole)
    assert desk.current().html


def test_a_mistake_of_ours_is_not_called_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> Callable[[], None]:
        raise KeyError("ours")

    monkeypatch.setattr("unalike.report.html.page.content", broken)
    with pytest.raises(KeyError, match="ours"):
        Desk(folder)


def test_the_command_says_it_in_one_line(folder: Path, unalike: Unalike) -> None:
    (folder / "summary.json").write_text("{}")
    assert "summary.json' is not what the run wrote" in mistake(unalike, "report", str(folder))
