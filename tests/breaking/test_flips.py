"""A thousand single flipped bits over all files of a run folder: each refused or harmless."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from breaking.property import COUNTS, attempt
from interrupted import STATEFUL, raw, whole

from unalike.engine.loop import Loop
from unalike.run.configuration.config import parse
from unalike.run.execute import resume, start
from unalike.run.folder.verify import verify

pytestmark = [
    pytest.mark.breaking,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore"),
]
OWN = ("timing.jsonl", ".lock", "manifest.json", "environment.json", "config.json")
# Bytes that a run does not repeat (seconds, places), or that are held against the manifest.


def results(folder: Path) -> dict[str, bytes]:
    """All that a run comes to."""
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if name not in OWN and not name.startswith("checkpoint/")
    }


def everything(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != ".lock"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole(tmp_path_factory.mktemp("finished") / "run", STATEFUL["scaffold"])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dead in its sixth round, with two checkpoints."""
    place, advance = tmp_path_factory.mktemp("stopped") / "run", Loop.advance

    def dying(self: Loop, state: Any, t: int) -> Any:
        if t == 5:
            raise ZeroDivisionError
        return advance(self, state, t)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "advance", dying)
        with pytest.raises(ZeroDivisionError):
            start(parse(raw(place, STATEFUL["scaffold"])))
    return place


@pytest.mark.parametrize(("kind", "times"), [("finished", 600), ("stopped", 400)])
def test_flips(kind: str, times: int, finished: Path, stopped: Path, tmp_path: Path) -> None:
    source, known = {"finished": finished, "stopped": stopped}[kind], results(finished)
    files = [p for p in source.rglob("*") if p.is_file() and p.stat().st_size]
    draw = random.Random(kind)
    for i in range(times):
        copy = tmp_path / "run"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        name = draw.choice(files).relative_to(source)
        data = bytearray((copy / name).read_bytes())
        at, bit = draw.randrange(len(data)), draw.randrange(8)
        data[at] ^= 1 << bit
        (copy / name).write_bytes(data)
        before, shown = everything(copy), (i, str(name), at, bit)
        if attempt(f"flips, {kind}", lambda copy=copy: resume(copy), shown) is None:
            if name.parent.name == "selected" and kind == "stopped":  # known only a round later
                assert not (copy / "summary.json").exists(), shown
            else:
                assert everything(copy) == before, shown  # refused, and nothing was touched
            continue
        assert results(copy) == known, shown
        verify(copy)
    assert not COUNTS[f"flips, {kind}", "failed"]
