"""Cells without a result: why, in failed.json, and what is said of the others all the same."""

import errno
import json
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest
from comparisons import TABLES, TINY, files, run_here, tiny
from written_runs import write_run

from unalike.compare.analysis.results import Results, reasons, record
from unalike.compare.execution import conduct as module
from unalike.compare.execution import folder as place
from unalike.compare.execution.conduct import conduct
from unalike.compare.execution.worker import Event, Job
from unalike.compare.specification.spec import Comparison, loads
from unalike.errors import RunError
from unalike.run.configuration.config import parse
from unalike.run.folder.records import read_json, read_lines

COMPARE = 'methods = ["fedavg", "fedprox"]\nseeds = 3'


def written(folder: Path, finished: int | None = None) -> Comparison:
    """A comparison whose first cells were finished without any training."""
    made = place.create(tiny(COMPARE), folder, "")
    for cell in made.cells[:finished]:
        write_run(cell.config, quality=0.7 + 0.01 * cell.seed)
    return made


def change(path: Path, **values: object) -> None:
    """Other values in a JSON file; ``...`` takes a key out."""
    found = read_json(path) | values
    path.write_text(json.dumps({k: v for k, v in found.items() if v is not ...}))


class Failing:
    """A schedule whose cells fail, but for some."""

    good: tuple[str, ...] = ()

    def __init__(self, processes: int, hear: Callable[[Event], None], asked: object) -> None:
        self.hear = hear

    def run(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.id in self.good:
                write_run(parse(job.config))
                self.hear(Event("done", job.id))
            else:
                self.hear(Event("failed", job.id, text=f"no luck with {job.id}."))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> type[Failing]:
    """No process is started."""
    monkeypatch.setattr(module, "Schedule", Failing)
    monkeypatch.setattr(Failing, "good", ())
    return Failing


def test_reasons_outlive_the_process_until_the_cell_succeeds(tmp_path, failing, monkeypatch):
    folder = tmp_path / "a"
    made = written(folder, 4)
    last = [c.id for c in made.cells[4:]]
    expected = {id: f"no luck with {id}." for id in last}
    assert conduct(made, folder).failed == expected
    assert read_json(folder / "failed.json") == reasons(folder) == expected
    monkeypatch.setattr(failing, "good", (last[0],))
    assert list(conduct(place.read(folder), folder).failed) == [last[1]]
    assert reasons(folder) == {last[1]: expected[last[1]]}
    monkeypatch.setattr(failing, "good", (last[1],))
    assert conduct(made, folder).failed == {}
    assert not (folder / "failed.json").exists()
    assert len(read_lines(folder / "results.jsonl")) == 6


def test_who_stops_before_a_cell_is_tried_again_keeps_its_reason(tmp_path, failing):
    folder = tmp_path / "a"
    made = written(folder, 5)
    conduct(made, folder)
    before = reasons(folder)
    assert list(before) == [made.cells[5].id]
    assert Results(made, folder).failed == before
    assert reasons(folder) == before


def test_a_cell_that_runs_again_is_not_one_that_failed(tmp_path, failing, monkeypatch):
    folder, seen = tmp_path / "a", []
    made = written(folder, 4)
    conduct(made, folder)

    def run(self: Failing, jobs: list[Job]) -> None:
        self.hear(Event("begin", jobs[1].id))
        seen.append(reasons(folder))
        self.hear(Event("failed", jobs[1].id, text="worse luck."))

    monkeypatch.setattr(Failing, "run", run)
    first, second = (c.id for c in made.cells[4:])
    expected = {first: f"no luck with {first}."}
    assert conduct(made, folder).failed == expected | {second: "worse luck."}
    assert seen == [expected]


def test_a_process_that_cannot_be_started_is_said(tmp_path, monkeypatch):
    def start(self: SpawnProcess) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(SpawnProcess, "start", start)
    made = written(tmp_path / "a", 5)
    with pytest.raises(RunError) as error:
        conduct(made, tmp_path / "a", 1)
    assert str(error.value) == (
        "a process of the comparison cannot be started: Resource temporarily unavailable; ask for "
        "fewer with --processes."
    )


def test_a_cell_without_a_selected_round_does_not_stop_the_others(tmp_path):
    folder = tmp_path / "a"
    made = written(folder)
    change(folder / made.cells[0].folder / "summary.json", selected=None)
    outcome = conduct(made, folder)
    assert list(outcome.failed) == [made.cells[0].id]
    assert "has no selected round" in reasons(folder)[made.cells[0].id]
    assert len(read_lines(folder / "results.jsonl")) == 5
    assert outcome.analysis.lines
    with pytest.raises(RunError, match="cell 'fedavg--dirichlet--seed0' failed: 'cells/fedavg"):
        outcome.check(folder)


@pytest.mark.parametrize(
    ("judged", "left", "remedy"),
    [
        ("", None, "round=last"),
        ('section = "global"', ("round", "local"), "section=SECTION"),
        ('metric = "kl"', ("round", "local", "global"), "metric=METRIC"),
    ],
)
def test_what_helps_a_finished_cell_that_cannot_be_judged(tmp_path, judged, left, remedy):
    """Going on would end in the same sentence; the same file with another setting does not."""
    folder, file = tmp_path / "a", f'methods = ["fedavg"]\nseeds = 1\n{judged}'
    made = place.create(tiny(file), folder, "")
    path = write_run(made.cells[0].config) / "summary.json"
    selected = read_json(path)["selected"]
    change(path, selected=left and {k: selected[k] for k in left})
    for _ in range(2):
        with pytest.raises(RunError) as error:
            conduct(place.read(folder), folder).check(folder)
        said = str(error.value)
        assert "try again" not in said
        assert said.endswith(
            f"compare the same file with --folder {folder} --set compare.{remedy}."
        )
    setting = "compare." + remedy.replace("SECTION", "local").replace("METRIC", "accuracy")
    made = loads(f"{TINY}\n[compare]\n{file}", "tiny", overrides=[setting])
    assert not conduct(place.create(made, folder, ""), folder).failed


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"bytes_down": ...}, "lacks 'bytes_down'"),
        ({"selected": ...}, "lacks 'selected'"),
        ({"selected": {"round": 1, "local": {"accuracy": {}}}}, "lacks 'mean'"),
        ({"bytes_up": None}, "is damaged"),
        ({"selected": 3}, "is damaged"),
    ],
)
def test_a_summary_that_lacks_something_is_named(tmp_path, changes, what):
    folder = tmp_path / "a"
    made = written(folder)
    path = folder / made.cells[2].folder / "summary.json"
    change(path, **changes)
    with pytest.raises(RunError) as error:
        record(made, folder, made.cells[2])
    said = str(error.value)
    assert said.startswith(f"'{path}' {what}")
    assert said.endswith("delete it, and it will be made again.")
    assert conduct(made, folder).failed == {made.cells[2].id: said}


def test_a_deleted_summary_is_made_again(tmp_path):
    folder = tmp_path / "a"
    made = place.create(tiny('methods = ["fedavg"]\nseeds = 2'), folder, "")
    run_here(made, folder)
    before = files(folder, *TABLES)
    path = folder / made.cells[0].folder / "summary.json"
    change(path, bytes_down=...)
    assert conduct(made, folder).failed
    path.unlink()
    run_here(place.read(folder), folder)
    assert files(folder, *TABLES) == before
    assert not (folder / "failed.json").exists()


def test_a_result_is_added_and_the_others_are_not_written_again(tmp_path):
    folder = tmp_path / "a"
    made = written(folder, 0)
    results = Results(made, folder)
    path = folder / "results.jsonl"
    same, size = path.stat().st_ino, 0
    for cell in reversed(made.cells):
        write_run(cell.config)
        line = json.dumps(results.add(cell)) + "\n"
        assert path.stat().st_ino == same
        size += len(line)
        assert path.stat().st_size == size


def test_every_cell_finds_its_baseline():
    made = tiny(
        'methods = ["scaffold", "fedavg"]\npartitions = ["iid", "dirichlet"]\nseeds = 2\n'
        'baseline = "fedavg"'
    )
    for cell in made.cells:
        base = made.baselines[cell.condition, cell.seed]
        assert (base.label, base.condition, base.seed) == ("fedavg", cell.condition, cell.seed)


def test_a_folder_of_an_older_version_knows_nothing_of_presets(tmp_path):
    folder = tmp_path / "a"
    written(folder, 0)
    raw = read_json(folder / "compare.json")
    del raw["source"]["preset"]
    (folder / "compare.json").write_text(json.dumps(raw))
    found = place.read(folder)
    assert found.source == {"name": "tiny", "scale": None, "overrides": []}
    assert place.create(found, folder, "").source == found.source
