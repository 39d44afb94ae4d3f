"""Comparisons over real processes: crashes, signals, and what the command line says of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from comparisons import TABLES, TINY, files, run_here, tiny

from unalike.compare.analysis.results import Results
from unalike.compare.execution import folder as place
from unalike.compare.execution.conduct import conduct
from unalike.compare.execution.schedule import Schedule, _death
from unalike.compare.execution.worker import Event, Job, Reporter, outcome
from unalike.compare.specification.settings import Budget
from unalike.compare.specification.spec import Cell
from unalike.errors import RunError
from unalike.run.folder.records import read_lines

DEADLY = """
import multiprocessing, os, pathlib, signal
from torch import nn

class Net(nn.Sequential):
    def __init__(self, shape, classes):
        super().__init__(nn.Flatten(), nn.Linear(64, classes))
        self.head = ("1.",)

    def forward(self, x):
        child = multiprocessing.parent_process() is not None
        if child and pathlib.Path(os.environ["DEADLY"]).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)
"""
SWEEP = """
rounds = 4
[data]
name = "digits"
[model]
name = "mlp"
hidden = [8]
[evaluation]
every = 2
[run]
checkpoint_every = 2
[compare]
methods = ["fedavg", "fedprox", "scaffold", "fedavgm"]
partitions = [
  { name = "dirichlet", alpha = 0.1, clients = 10, min_size = 5 },
  { name = "dirichlet", alpha = 1.0, clients = 10, min_size = 5 },
  { name = "iid" },
]
seeds = 5
"""

SCRIPT = """
import unalike

print("begun")
made = unalike.compare("digits", "logistic", ["fedavg", "fedprox"], seeds=1, rounds=1, processes=1)
assert len(made.made.cells) == 2
"""


class Heard:
    """Remembers what a comparison tells."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def begin(self, made: object, done: object, processes: int) -> None:
        self.processes = processes

    def hear(self, event: Event, cell: Cell, value: float | None) -> None:
        self.events.append(event)

    def stopping(self) -> None: ...

    def end(self) -> None:
        self.ended = True


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "unalike.cli.main", "compare", *arguments]


def begun(folder: Path, file: Path, cells: int, *more: str) -> subprocess.Popen[str]:
    """The command, once so many cells are done."""
    process = subprocess.Popen(
        command(str(file), "--folder", str(folder), *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 240
    while len(read_lines(folder / "results.jsonl")) < cells:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    out = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            out.append(int(stat.parent.name))
    return out


def test_a_crash_is_named_the_others_go_on_and_all_is_well_again(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(DEADLY)
    marker = tmp_path / "deadly"
    monkeypatch.setenv("DEADLY", str(marker))
    own = f'{{ name = "module", file = "{tmp_path}/net.py", attribute = "Net" }}'
    made = tiny(
        f"""
        methods = ["fedavg"]
        seeds = 1
        partitions = [
          {{ name = "iid", model = {own}, label = "deadly" }},
          {{ name = "iid", label = "sound" }},
        ]
        """
    )
    made = place.create(made, tmp_path / "a", "")
    marker.touch()
    heard = Heard()
    came = conduct(made, tmp_path / "a", 1, heard)
    assert list(came.failed) == ["fedavg--deadly--seed0"]
    assert "its process was killed (SIGKILL" in came.failed["fedavg--deadly--seed0"]
    assert [e.id for e in heard.events if e.kind == "done"] == ["fedavg--sound--seed0"]
    with pytest.raises(RunError, match="cell 'fedavg--deadly--seed0' failed: its process was"):
        came.check(tmp_path / "a")
    assert heard.ended
    left = Results(made, tmp_path / "a").left
    assert [c.id for c in left] == ["fedavg--deadly--seed0"]
    run_here(made, tmp_path / "a")
    assert len(read_lines(tmp_path / "a" / "results.jsonl")) == 2


@pytest.mark.slow
def test_killed_for_good_it_leaves_no_process_and_continues(tmp_path):
    """SIGKILL to the command itself; the same tables as one that was left alone."""
    file = tmp_path / "tiny.toml"
    file.write_text(f'{TINY}\n[compare]\nmethods = ["fedavg", "fedprox"]\nseeds = 3')
    process = begun(tmp_path / "a", file, 2, "--processes", "1")
    mine = children(process.pid)
    assert mine
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in mine):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)
    done = subprocess.run(
        command(str(tmp_path / "a")), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "6 cells, " in done.stdout
    assert "0 done before" not in done.stdout
    run_here(place.create(place.read(tmp_path / "a"), tmp_path / "b", ""), tmp_path / "b")
    assert files(tmp_path / "a", *TABLES) == files(tmp_path / "b", *TABLES)


def test_a_failing_job_is_one_sentence_and_a_file(tmp_path):
    heard: list[Event] = []
    job = tiny('methods = ["fedavg"]\nseeds = 1').cells[0]
    broken = job.config.resolved() | {"rounds": 0}

    class Deaf:
        def send(self, event: Event) -> None:
            heard.append(event)

        def poll(self) -> bool:
            return False

    made = Job("x", str(tmp_path / "x"), broken, Budget("rounds"), broken, str(tmp_path / "e"))
    found = outcome(made, Reporter("x", Deaf()))  # type: ignore[arg-type]
    assert found.kind == "failed"
    assert "'rounds' must be" in found.text
    worse = made._replace(config={"rounds": object()}, baseline=3)  # type: ignore[arg-type]
    found = outcome(worse, Reporter("x", Deaf()))  # type: ignore[arg-type]
    assert found.kind == "failed"
    assert "the whole error is in" in found.text or "'rounds' must be" in found.text


def test_no_jobs_start_no_process():
    schedule = Schedule(2, lambda event: None)
    schedule.run([])
    assert schedule.workers == []


def test_the_cause_of_death_is_named():
    assert _death(-signal.SIGSEGV) == "its process was killed (SIGSEGV)."
    assert _death(3) == "its process ended unexpectedly (exit code 3)."


@pytest.mark.slow
def test_ctrl_c_stops_after_the_round_and_says_how_to_go_on(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP.replace("rounds = 4", "rounds = 200"))
    process = begun(tmp_path / "a", file, 0, "--processes", "2")
    while not list((tmp_path / "a").glob("cells/*/checkpoint/*")):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"of 60 cells done; continue with: unalike compare {tmp_path / 'a'}" in err
    assert "Traceback" not in out + err


def test_a_script_needs_no_guard(tmp_path):
    """Processes do not run the script again that started them."""
    (tmp_path / "script.py").write_text(SCRIPT)
    given = [sys.executable, "script.py"]
    done = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("begun") == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sixty_cells_killed_three_times_end_in_the_identical_table(tmp_path):
    """4 methods x 3 partitions x 5 seeds, killed after 5, 20 and 45 cells."""
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)
    for cells in (5, 20, 45):
        process = begun(tmp_path / "a", file, cells)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        time.sleep(0.5)
    subprocess.run(command(str(tmp_path / "a")), check=True, capture_output=True, timeout=900)
    subprocess.run(
        command(str(file), "--folder", str(tmp_path / "b")),
        check=True,
        capture_output=True,
        timeout=900,
    )
    assert len(read_lines(tmp_path / "a" / "results.jsonl")) == 60
    assert files(tmp_path / "a", *TABLES) == files(tmp_path / "b", *TABLES)
