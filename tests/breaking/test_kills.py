"""A hundred kills at random file operations: whatever is left continues to the same bytes."""

import itertools
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from breaking.property import COUNTS, call
from interrupted import STATEFUL, raw, write_toml

pytestmark = [
    pytest.mark.breaking,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore"),
]
OPERATIONS = ("open", "replace", "rename", "unlink", "fsync", "mkdir", "truncate", "write", "close")
METHODS: dict[str, dict[str, Any]] = {
    **STATEFUL,
    "disk": {"method": "scaffold", "engine": {"states": "disk"}},
    "fedevg": {"method": {"name": "fedevg", "per_class": 1, "judge_epochs": 1}, "faults": {}},
}
OUTSIDE = (
    "timing.jsonl",
    ".lock",
    "environment.json",
    "manifest.json",
    "study.jsonl",
    "report.html",
)


def dying(at: int) -> Callable[[], None]:
    """Make the process kill itself before its n-th operation on a file that it writes."""

    def prepare() -> None:
        count = itertools.count()

        def step() -> None:
            if next(count) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        for name in ("replace", "rename", "unlink", "fsync", "mkdir", "ftruncate"):
            real = getattr(os, name)

            def wrapped(*args: Any, real: Any = real, **kwargs: Any) -> Any:
                step()
                return real(*args, **kwargs)

            setattr(os, name, wrapped)
        opened = Path.open

        def open_(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if mode[0] in "wa":
                step()
            return opened(self, mode, *args, **kwargs)

        Path.open = open_  # type: ignore[method-assign]

    return prepare


def results(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if path.name not in OUTSIDE and "checkpoint/" not in name and not path.name.startswith(".")
    }


def killed(
    place: Path, begin: list[str], proceed: list[str], known: dict[str, bytes], at: int
) -> None:
    """Die at an operation, continue until the end, and come to the same."""
    shutil.rmtree(place / "out", ignore_errors=True)
    outcome = call(begin, place, dying(at))
    what = "killed" if outcome.code == -signal.SIGKILL else "past the end"
    for _ in range(3):
        if outcome.code == 0:
            break
        begun = any((place / "out").glob("*.json")) if (place / "out").exists() else False
        outcome = call(proceed if begun else begin, place)
    COUNTS["kills", "survived" if outcome.code == 0 else "failed"] += what == "killed"
    assert outcome.code == 0, (begin, at, outcome.err[-2000:])
    assert results(place / "out") == known, (begin, at)


@pytest.mark.parametrize("name", METHODS)
def test_runs(name: str, tmp_path: Path) -> None:
    write_toml(tmp_path / "c.toml", raw(Path("out"), METHODS[name]))
    assert call(["run", "c.toml"], tmp_path).code == 0
    known, draw = results(tmp_path / "out"), random.Random(name)
    for _ in range(9):
        at = draw.randrange(60)
        killed(tmp_path, ["run", "c.toml"], ["resume", "out"], known, at)


def test_searches(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    tune = {"trials": 3, "search": {"local.lr": [0.01, 0.1, 0.5]}}
    small = {"rounds": 2, "model": "logistic", "partition": {"name": "iid", "clients": 3}}
    text = write_toml(tmp_path / "c.toml", small).read_text()
    search = '{"local.lr" = [0.01, 0.1, 0.5]}'
    (tmp_path / "c.toml").write_text(
        f"{text}[tune]\ntrials = {tune['trials']}\nsearch = {search}\n"
    )
    command = ["tune", "c.toml", "--folder", "out"]
    assert call(command, tmp_path).code == 0
    known, draw = results(tmp_path / "out"), random.Random("tune")
    for _ in range(8):
        killed(tmp_path, command, command, known, draw.randrange(30))
