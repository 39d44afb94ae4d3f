"""The files of a run: whole or not at all, and known by their bytes."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from unalike.errors import RunError
from unalike.run.configuration.config import parse
from unalike.run.folder.location import make_folder, refuse_occupied
from unalike.run.folder.records import Log, alone, dumps, plain, read_json, read_lines, write


def test_plain_data():
    value = {
        1: np.float32(0.5),
        "a": (float("nan"), float("-inf"), np.arange(2)),
        "t": torch.ones(2),
    }
    assert plain(value) == {"1": 0.5, "a": [None, None, [0, 1]], "t": [1.0, 1.0]}
    assert json.loads(dumps(value)) == plain(value)


def test_a_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "a", "old")

    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "a", "new and longer")
    assert (tmp_path / "a").read_text() == "old"


class TestLog:
    def test_it_knows_its_size_and_hash(self, tmp_path: Path):
        log = Log(tmp_path / "log")
        for i in range(3):
            log.append({"i": i})
        raw = (tmp_path / "log").read_bytes()
        assert (log.size, log.hash.hexdigest()) == (len(raw), hashlib.sha256(raw).hexdigest())
        assert read_lines(tmp_path / "log") == [{"i": 0}, {"i": 1}, {"i": 2}]

    def test_rewound_it_goes_on_as_before(self, tmp_path: Path):
        log, again = Log(tmp_path / "log"), Log(tmp_path / "log")
        log.append(1)
        size, digest = log.size, log.hash.hexdigest()
        log.append(2)
        again.check(size, digest)
        again.rewind(size)
        again.append(2)
        assert (again.size, again.hash.hexdigest()) == (log.size, log.hash.hexdigest())
        assert read_lines(tmp_path / "log") == [1, 2]

    def test_one_changed_byte_is_noticed(self, tmp_path: Path):
        log = Log(tmp_path / "log")
        log.append([1, 2, 3])
        size, digest = log.size, log.hash.hexdigest()
        (tmp_path / "log").write_text("[1, 2, 4]\n")
        with pytest.raises(RunError, match="is not what the checkpoint was made with"):
            log.check(size, digest)


def test_half_a_line_at_the_end_is_left_out_and_elsewhere_an_error(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a"')
    assert read_lines(path) == [{"a": 1}, {"a": 2}]
    path.write_text('{"a": 1}\n{"a"\n{"a": 2}\n')
    with pytest.raises(RunError, match="line 2 of"):
        read_lines(path)
    assert read_lines(tmp_path / "none") == []


def test_json_that_is_not(tmp_path: Path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(RunError, match=r"a\.json' is damaged"):
        read_json(tmp_path / "a.json")
    with pytest.raises(RunError, match=r"it has no b\.json"):
        read_json(tmp_path / "b.json")


def test_only_one_process_at_a_time(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from unalike.run.folder.records import alone\n"
        f"with alone(Path({str(tmp_path)!r})): pass"
    )
    with alone(tmp_path):
        refused = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "is in use by another process" in refused.stderr
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_errors_of_the_folder_are_called_so(tmp_path: Path):
    with pytest.raises(RunError, match="cannot be written: No such file"), alone(tmp_path):
        write(tmp_path / "none" / "x.json", "")
    with pytest.raises(RunError, match="cannot be written: No space left"), alone(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(RunError, match=r"none/\.lock' cannot be written"), alone(tmp_path / "none"):
        pass
    for elsewhere in (
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/usr/bin/python9"),
    ):
        with pytest.raises(type(elsewhere)) as error, alone(tmp_path):
            raise elsewhere
        assert error.value is elsewhere


class TestPlace:
    @pytest.fixture(autouse=True)
    def _here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def test_names_from_the_settings_are_numbered(self):
        config = parse({"method": "fedprox", "plus": ["fedadam"], "seed": 3})
        name = "runs/fedprox+fedadam-digits-dirichlet-seed3"
        made = [str(make_folder(config)) for _ in range(3)]
        assert made == [name, f"{name}-2", f"{name}-3"]

    def test_an_empty_folder_may_be_used(self, tmp_path: Path):
        config = parse({"run": {"folder": "a/b"}})
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a" / "b" / ".lock").touch()  # left by a start that was killed at once
        refuse_occupied(config)
        assert make_folder(config) == Path("a/b")
