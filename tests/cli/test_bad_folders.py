"""Run folders that were tampered with: one line that names it, and nothing more is spoiled."""

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import TABLE, Unalike, mistake
from interrupted import raw, write_toml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from unalike.engine.loop import Loop
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.folder.proof import digest


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


def altered(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], **notes: str | None
) -> Callable[[Path], None]:
    """Other tensors, or other notes, in an intact safetensors file."""

    def spoil(place: Path) -> None:
        with safe_open(place / STATE, "pt") as f:
            found = {k: v for k, v in {**f.metadata(), **notes}.items() if v is not None}
        save_file(change(load_file(place / STATE)), place / STATE, found)

    return spoil


def tensors(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], **notes: str | None
) -> Callable[[Path], None]:
    """The same, with a digest that fits."""

    def spoil(place: Path) -> None:
        altered(change, **notes)(place)
        with safe_open(place / STATE, "pt") as f:
            found = f.metadata()
        altered(same, digest=digest(load_file(place / STATE), found))(place)

    return spoil


def first(
    change: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """A change of one tensor."""

    def changed(flat: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        name = min(flat)
        return {**flat, name: change(flat[name])}

    return changed


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
        "was not written by this version",
    ),
    "checkpoint of another version": (tensors(same, format="0"), "was not written by this version"),
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
            lambda flat: flat | {"states": torch.cat([flat["states"], torch.tensor([[9, 0, 0]])])}
        ),
        "does not hold the state",
    ),
    "checkpoint of other data": (tensors(same, data="0"), "the data changed"),
    "checkpoint of other code": (tensors(same, code="0"), "was made by different code"),
    "checkpoint of no round": (tensors(same, round="0"), "does not hold the state"),
    "checkpoint of a round too many": (tensors(same, round="999"), "does not hold the state"),
    "a round that was edited": (altered(same, round="1"), "(its digest is another)"),
    "another stage": (altered(same, stage="1"), "(its digest is another)"),
    "a tensor that is no number": (altered(first(lambda x: x * torch.nan)), "(its digest is"),
    "a tensor that is a little longer": (altered(first(lambda x: x * 1.0001)), "(its digest is"),
    "a client whose state was dropped": (
        altered(lambda flat: flat | {"states": flat["states"][1:]}),
        "(its digest is",
    ),
    "a tensor too many": (altered(lambda flat: flat | {"a": torch.ones(1)}), "(its digest is"),
    "a bit of the last tensor": (
        edit(STATE, lambda b: b[:-20] + bytes([b[-20] ^ 64]) + b[-19:]),
        "(its digest is another)",
    ),
    "manifest is cut": (edit("manifest.json", lambda b: b[:40]), "manifest.json' is damaged"),
    "manifest is a number": (edit("manifest.json", lambda b: b"5"), "manifest.json' is damaged"),
    "manifest is nested": (
        edit("manifest.json", lambda b: b"[" * 100_000),
        "manifest.json' is damaged",
    ),
    "environment is edited": (
        edit("environment.json", lambda b: b + b" "),
        "environment.json' was changed",
    ),
}


@pytest.mark.parametrize(("spoil", "named"), SPOILED.values(), ids=SPOILED)
def test_a_folder_that_was_tampered_with(
    spoil: Callable[[Path], None],
    named: str,
    folder: Path,
    unalike: Unalike,
):
    spoil(folder)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert named in mistake(unalike, "resume", str(folder))
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert after == before | {folder / ".lock": b""}


def test_data_that_changed_since(stopped: Path, tmp_path: Path, unalike: Unalike):
    shutil.copytree(stopped, tmp_path / "here")
    place = tmp_path / "here"
    table = (stopped / "a.csv").read_text()
    (stopped / "a.csv").write_text(table.replace("0,0,north,sick", "5,0,north,sick", 1))
    try:
        said = mistake(unalike, "resume", str(place / "run"))
    finally:
        (stopped / "a.csv").write_text(table)
    assert "the data changed" in said


def test_a_folder_in_use(folder: Path, unalike: Unalike):
    with (folder / ".lock").open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        assert "is in use by another process" in mistake(unalike, "resume", str(folder))


def test_a_file_instead_of_a_folder(folder: Path, unalike: Unalike):
    assert "there is no run folder" in mistake(unalike, "resume", str(folder / "config.json"))


def test_a_new_run_over_an_old_one(folder: Path, monkeypatch: pytest.MonkeyPatch, unalike: Unalike):
    monkeypatch.chdir(folder.parent)
    write_toml(folder.parent / "c.toml", {"rounds": 2})
    said = mistake(unalike, "run", "c.toml", "--set", "run.folder=run")
    assert "'run' already holds a run: continue with 'unalike resume run'" in said


def test_a_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch, unalike: Unalike):
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    said = mistake(unalike, "resume", str(folder))
    assert "cannot be written: No space left on device" in said


def test_a_folder_of_runs_is_no_run(tmp_path: Path, unalike: Unalike):
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.json").write_text("{}")
    said = mistake(unalike, "resume", str(tmp_path / "runs"))
    assert "is not a run folder but holds 2 of them; name one, such as" in said
    assert any(f"'{tmp_path / 'runs' / name}'" in said for name in ("one", "two"))
