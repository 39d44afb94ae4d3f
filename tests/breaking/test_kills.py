"""A hundred kills at random file operations: whatever is left continues to the same bytes."""

import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from breaking.property import COUNTS
from breaking.server import Limits, call
from interrupted import STATEFUL, raw, write_toml

pytestmark = [
    pytest.mark.breaking,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore"),
]
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
SMALL = {"rounds": 2, "model": "logistic", "partition": {"name": "iid", "clients": 3}}
TIME = Limits(seconds=300)


def results(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if path.name not in OUTSIDE and "checkpoint/" not in name and not path.name.startswith(".")
    }


def killed(
    place: Path,
    begin: list[str],
    proceed: list[str],
    times: int,
    hook: str = "die_at",
) -> None:
    """Die at random operations, continue until the end, and come to the same every time."""
    count = place / "count"
    assert call(begin, place, ("breaking.hooks:die_at", [-1, str(count)]), TIME).code == 0
    known, there = results(place / "out"), int(count.read_text())
    draw = random.Random(" ".join(begin) + hook + place.name.rstrip("0123456789"))
    for at in sorted(draw.sample(range(there), times)):
        shutil.rmtree(place / "out", ignore_errors=True)
        outcome = call(begin, place, (f"breaking.hooks:{hook}", [at, str(count)]), TIME)
        assert outcome.code == -signal.SIGKILL or hook != "die_at", (at, outcome)
        for _ in range(3):
            if outcome.code == 0:
                break
            begun = any((place / "out").glob("*.json")) if (place / "out").exists() else False
            outcome = call(proceed if begun else begin, place, None, TIME)
        fine = outcome.code == 0 and results(place / "out") == known
        COUNTS["kills", "survived" if fine else "failed"] += 1
        assert fine, (begin, at, there, outcome.err[-2000:])


@pytest.mark.parametrize("name", METHODS)
def test_runs(name: str, tmp_path: Path) -> None:
    write_toml(tmp_path / "c.toml", raw(Path("out"), METHODS[name]))
    killed(tmp_path, ["run", "c.toml"], ["resume", "out"], 8)


def test_searches(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    text = write_toml(tmp_path / "c.toml", SMALL).read_text()
    search = '[tune]\ntrials = 3\nsearch = {"local.lr" = [0.01, 0.1, 0.5]}\n'
    (tmp_path / "c.toml").write_text(text + search)
    command = ["tune", "c.toml", "--folder", "out"]
    killed(tmp_path, command, command, 8)


@pytest.mark.parametrize(("hook", "times"), [("die_at", 4), ("kill_worker_at", 2)])
def test_comparisons(hook: str, times: int, tmp_path: Path) -> None:
    """The process that conducts, or one of those that work for it."""
    text = write_toml(tmp_path / "c.toml", {**SMALL, "run": {"checkpoint_every": 1}}).read_text()
    (tmp_path / "c.toml").write_text(
        text + '[compare]\nseeds = 1\nmethods = ["fedavg", "scaffold", "fedprox"]\n'
    )
    command = ["compare", "c.toml", "--folder", "out", "--processes", "2"]
    killed(tmp_path, command, command, times, hook)
