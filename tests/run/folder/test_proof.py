"""Checkpoints prove themselves, and what a finished run wrote is never replaced by other bytes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted import STATEFUL, assert_same_run, raw, whole
from safetensors import safe_open

from unalike.engine.loop import Loop
from unalike.errors import Damaged, RunError, RunWarning
from unalike.run.configuration.config import parse
from unalike.run.execute import resume, start
from unalike.run.folder.proof import pack, unpack
from unalike.run.folder.verify import verify

STATE = "checkpoint/state.safetensors"
EARLIER = "checkpoint/earlier.safetensors"


def flip(path: Path, byte: int = -20, bit: int = 6) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def _start(path: Path, line: int) -> int:
    """Where a line begins."""
    return len(b"".join(path.read_bytes().splitlines(True)[:line]))


def everything(folder: Path) -> dict[str, bytes]:
    """All that a folder holds, locks left out."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if name != ".lock"}


class TestAFile:
    flat = {
        "b": torch.tensor([[1.5, -2.0]]),
        "a": torch.tensor(3),
        "c": torch.zeros(0, 3),
        "d": torch.tensor([True, False]),
    }
    notes = {"round": "4", "who": "Zoë", "size": "17"}

    def test_what_goes_in_comes_out(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(pack(self.flat, self.notes))
        notes, flat = unpack(tmp_path / "a")
        assert {k: notes[k] for k in self.notes} == self.notes
        assert flat.keys() == self.flat.keys()
        assert all(torch.equal(flat[k], v) for k, v in self.flat.items())

    def test_equal_states_are_equal_bytes(self) -> None:
        turned = dict(reversed(self.flat.items())), dict(reversed(self.notes.items()))
        assert len({pack(*turned) for _ in range(5)} | {pack(self.flat, self.notes)}) == 1

    def test_every_single_bit_counts(self, tmp_path: Path) -> None:
        """Each flipped bit is noticed, or means nothing at all."""
        data, path = pack(self.flat, self.notes), tmp_path / "a"
        known, harmless = {k: v.tolist() for k, v in self.flat.items()}, 0
        for i in range(8 * len(data)):
            spoiled = bytearray(data)
            spoiled[i // 8] ^= 1 << i % 8
            path.write_bytes(spoiled)
            try:
                notes, flat = unpack(path)
            except Damaged:
                continue
            harmless += 1
            assert {k: notes[k] for k in self.notes} == self.notes, i
            assert {k: v.tolist() for k, v in flat.items()} == known, i
        assert harmless < len(data) / 20  # spaces that fill up the header, at most


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose clients keep something."""
    return whole(tmp_path_factory.mktemp("whole") / "run", STATEFUL["scaffold"])


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, dead in its sixth round; checkpoints of rounds 4 and 2 are there."""
    place, advance = tmp_path_factory.mktemp("half") / "run", Loop.advance

    def dying(self: Loop, state: Any, t: int) -> Any:
        if t == 5:
            raise ZeroDivisionError
        return advance(self, state, t)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "advance", dying)
        with pytest.raises(ZeroDivisionError):
            start(parse(raw(place, STATEFUL["scaffold"])))
    return place


@pytest.fixture
def finished(reference: Path, tmp_path: Path) -> Path:
    shutil.copytree(reference, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def stopped(half: Path, tmp_path: Path) -> Path:
    shutil.copytree(half, tmp_path / "run")
    return tmp_path / "run"


class TestTheOneBefore:
    """A damaged checkpoint costs the rounds since the one before it, and nothing else."""

    spoiled: dict[str, Callable[[Path], None]] = {
        "a bit of the state": lambda p: flip(p / STATE),
        "the state is gone": lambda p: (p / STATE).unlink(),
        "a bit of a client": lambda p: flip(max(p.glob("checkpoint/clients/*"))),
        "a client is gone": lambda p: max(p.glob("checkpoint/clients/*")).unlink(),
        "the end of the log": lambda p: flip(p / "rounds.jsonl", _start(p / "rounds.jsonl", 3)),
    }

    @pytest.mark.parametrize("how", spoiled)
    def test_is_used_and_the_run_ends_the_same(
        self, how: str, stopped: Path, reference: Path
    ) -> None:
        self.spoiled[how](stopped)
        with pytest.warns(RunWarning, match="from the checkpoint before it, after round 2"):
            resume(stopped)
        assert_same_run(reference, stopped)

    def test_is_not_used_if_it_is_damaged_as_well(self, stopped: Path) -> None:
        flip(stopped / STATE)
        flip(stopped / EARLIER)
        before = everything(stopped)
        with pytest.raises(RunError, match=r"state\.safetensors' is damaged"):
            resume(stopped)
        assert everything(stopped) == before

    def test_its_clients_are_kept(self, stopped: Path) -> None:
        for path in (stopped / STATE, stopped / EARLIER):
            with safe_open(path, "pt") as f:
                places = f.get_tensor("states")
            for shard in places[:, 1].unique().tolist():
                assert (stopped / f"checkpoint/clients/{shard:08d}.safetensors").is_file()


class TestFinished:
    def test_nothing_is_computed(self, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = everything(finished)
        monkeypatch.setattr("unalike.run.execute.experiment", lambda config: 1 / 0)
        resume(finished)
        assert everything(finished) == before

    def test_not_even_without_its_checkpoint(self, finished: Path) -> None:
        shutil.rmtree(finished / "checkpoint")
        before = everything(finished)
        resume(finished)
        assert everything(finished) == before
        assert "the checkpoint was removed" in verify(finished)

    @pytest.mark.parametrize("name", ["summary.json", "model.safetensors", "skew.json"])
    def test_a_result_is_made_again_from_the_checkpoint(self, name: str, finished: Path) -> None:
        known = everything(finished)
        flip(finished / name)
        resume(finished)
        again = everything(finished)
        assert again[name] == known[name]
        assert verify(finished)

    @pytest.mark.parametrize(
        "name", ["rounds.jsonl", "clients.jsonl", STATE, "config.json", "environment.json"]
    )
    def test_what_cannot_be_made_again_is_refused(self, name: str, finished: Path) -> None:
        if name == "config.json":  # still a configuration
            text = (finished / name).read_text()
            (finished / name).write_text(text.replace('"seed": 0', '"seed": 1'))
        else:
            flip(finished / name)
        before = everything(finished)
        with pytest.raises(RunError, match=f"the run is finished, but '.*{name}' is not what"):
            resume(finished)
        assert everything(finished) == before

    def test_a_checkpoint_that_leads_elsewhere(self, finished: Path) -> None:
        """Even one that proves itself: the results are proven, too."""
        notes, flat = unpack(finished / STATE)
        name = next(n for n in flat if "weight" in n)
        flat[name][0] += 1
        (finished / STATE).write_bytes(pack(flat, notes))
        (finished / "model.safetensors").unlink()
        with pytest.raises(RunError, match=r"checkpoint/state\.safetensors' is not what"):
            resume(finished)
        assert not (finished / "model.safetensors").exists()

    def test_a_result_that_nothing_proves(self, finished: Path) -> None:
        (finished / "manifest.json").unlink()
        shutil.rmtree(finished / "checkpoint")
        with pytest.raises(RunError, match="a finished run without a checkpoint"):
            resume(finished)
        assert (finished / "rounds.jsonl").exists()


class TestVerify:
    def test_whole_folders(self, finished: Path, half: Path) -> None:
        assert "is intact: finished, " in verify(finished)
        assert "is intact: 4 of 6 rounds are saved" in verify(half)

    def test_every_file_that_matters(self, finished: Path) -> None:
        for name in everything(finished):
            copy = finished.with_name("copy")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(finished, copy)
            data = (copy / name).read_bytes()
            flip(copy / name, len(data) // 2, 0)
            with pytest.raises(RunError, match=r"is not what|is damaged|was changed"):
                verify(copy)

    def test_an_unfinished_folder(self, stopped: Path) -> None:
        flip(stopped / EARLIER)
        with pytest.raises(RunError, match=r"earlier\.safetensors' is damaged"):
            verify(stopped)

    def test_no_manifest(self, finished: Path) -> None:
        (finished / "manifest.json").unlink()
        with pytest.raises(RunError, match=r"has no manifest\.json"):
            verify(finished)


@pytest.mark.parametrize("length", range(0, 32, 4))
def test_where_tensors_lie_in_a_file_is_forgotten(length: int, tmp_path: Path) -> None:
    """The head's length moves them, and products of misplaced matrices end in other digits."""
    flat = {"a": torch.randn(5, 7), "b": torch.randn(3)}
    (tmp_path / "f").write_bytes(pack(flat, {"note": "x" * length}))
    _, found = unpack(tmp_path / "f")
    assert all(x.data_ptr() % 64 == 0 for x in found.values())
    assert all(torch.equal(found[name], flat[name]) for name in flat)
