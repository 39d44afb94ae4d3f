"""A power cut costs the rounds since the last checkpoint and nothing else."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from breaking.power import Cut, watched
from interrupted import FILES

from unalike.errors import RunError
from unalike.run.configuration.config import parse
from unalike.run.execute import resume, start
from unalike.run.folder.checkpoint import Checkpoint

RAW: dict[str, Any] = {
    "rounds": 4,
    "method": "scaffold",  # clients keep a state
    "partition": {"name": "iid", "clients": 3},
    "model": "logistic",
    "local": {"epochs": 0.2, "lr": 0.2},
    "run": {"folder": "run", "checkpoint_every": 1},
}
Cuts = list[tuple[str, Cut, int]]


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cuts, dict[str, bytes]]:
    """(every moment at which something reached the disk, the files in the end)."""
    place = tmp_path_factory.mktemp("power")
    with pytest.MonkeyPatch.context() as patch, watched(place) as disk:
        patch.chdir(place)
        real = Checkpoint.store

        def store(self: Checkpoint, t: int, progress: Any) -> None:
            real(self, t, progress)
            disk.mark = t
            disk.cut()

        patch.setattr(Checkpoint, "store", store)
        disk.mark = 0
        start(parse(RAW))
        disk.mark = RAW["rounds"]
        disk.cut()
    return disk.cuts, {name: (place / "run" / name).read_bytes() for name in FILES}


def continued(
    cut: tuple[str, Cut, int], ends: dict[str, bytes], place: Path, patch: pytest.MonkeyPatch
) -> None:
    kind, left, saved = cut
    left.restore(place)
    patch.chdir(place)
    found: list[int] = []
    real = Checkpoint.restore

    def restore(self: Checkpoint) -> Any:
        done, progress = real(self)
        found.append(done)
        return done, progress

    patch.setattr(Checkpoint, "restore", restore)
    if saved == 0:  # it may have lost everything, and then says so
        with suppress(RunError):
            resume("run")
        return
    resume("run")
    assert {name: (place / "run" / name).read_bytes() for name in FILES} == ends
    assert all(done >= saved for done in found), f"{kind} after round {saved}: from {found}"


@pytest.mark.parametrize("part", range(12))
def test_some(part: int, cuts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every, ends = cuts
    at = part * (len(every) - 1) // 11
    continued(every[at], ends, tmp_path, monkeypatch)


@pytest.mark.breaking
def test_all(cuts: Any, tmp_path: Path) -> None:
    every, ends = cuts
    assert len(every) > 100
    for i, cut in enumerate(every):
        with pytest.MonkeyPatch.context() as patch:
            continued(cut, ends, tmp_path / str(i), patch)
