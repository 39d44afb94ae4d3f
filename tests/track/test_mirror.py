"""What trackers are told of a run, with small stand-ins for the packages."""

import sys
from collections import namedtuple
from types import ModuleType, SimpleNamespace

import pytest

from unalike.errors import ConfigError, RunWarning, warned
from unalike.run.configuration.config import parse
from unalike.run.configuration.dotted import flat
from unalike.run.execute import Silent
from unalike.run.folder.records import read_json, read_lines
from unalike.track import mirror
from unalike.track.base import numbers
from unalike.track.running import resume, start

TINY = {
    "rounds": 3,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 4, "min_size": 10},
    "model": {"name": "mlp", "hidden": [4]},
    "run": {"checkpoint_every": 1},
}


def tiny(folder, *to, **changes):
    run = {"folder": str(folder), "checkpoint_every": 1}
    return parse({**TINY, "run": run, "track": {"to": list(to)}, **changes})


class Book:
    """A tracker that remembers."""

    made: list["Book"] = []

    def __init__(self, fails_at=0):
        self.said, self.fails_at = [], fails_at
        Book.made.append(self)

    def begin(self, run):
        self.said.append(("begin", run.done, run.known, run.project, run.config["rounds"]))
        return "page 7"

    def log(self, step, values):
        if step == self.fails_at:
            raise ConnectionError("no network")
        self.said.append((step, values))

    def end(self, failed):
        self.said.append(("end", failed))


@pytest.fixture
def book(monkeypatch):
    Book.made = []
    monkeypatch.setitem(mirror.TRACKERS, "tensorboard", Book)
    return Book


class StopsAfter(Silent):
    """Asks for a stop, as Ctrl-C does."""

    def __init__(self, rounds):
        self.rounds = rounds

    def round(self, record):
        if record["round"] == self.rounds:
            raise KeyboardInterrupt


def test_every_round_is_told_once(book, tmp_path):
    folder = start(tiny(tmp_path / "a", "tensorboard"))
    (tracker,) = book.made
    assert tracker.said[0] == ("begin", 0, None, "unalike", 3)
    assert [s[0] for s in tracker.said[1:]] == [1, 2, 3, "end"]
    assert tracker.said[-1] == ("end", False)
    last, records = tracker.said[3][1], read_lines(folder / "rounds.jsonl")
    assert last["local/accuracy"] == records[2]["metrics"]["local"]["accuracy"]["mean"]
    sent = sum(r[f"bytes_{way}"] for r in records for way in ("down", "up", "across"))
    assert last["bytes"] == sent
    assert read_json(folder / "track.json") == {"tensorboard": "page 7"}


def test_the_records_do_not_depend_on_trackers(book, tmp_path):
    with_one = start(tiny(tmp_path / "a", "tensorboard"))
    without = start(tiny(tmp_path / "b"))
    for name in ("rounds.jsonl", "clients.jsonl", "summary.json"):
        assert (with_one / name).read_bytes() == (without / name).read_bytes()
    assert not (without / "track.json").exists()


def test_a_resumed_run_goes_on_in_the_same_log(book, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        start(tiny(tmp_path / "a", "tensorboard"), StopsAfter(2))
    assert book.made[0].said[-1] == ("end", True)
    resume(tmp_path / "a")
    again = book.made[1].said
    assert again[0][:3] == ("begin", 1, "page 7")
    assert [s[0] for s in again[1:]] == [2, 3, "end"]
    first = dict(s for s in book.made[0].said if isinstance(s[0], int))
    assert again[1][1] == first[2]  # the totals know of the rounds before


def test_a_tracker_that_fails_is_left_out_and_the_run_goes_on(tmp_path, monkeypatch):
    Book.made = []
    monkeypatch.setitem(mirror.TRACKERS, "wandb", lambda: Book(fails_at=2))
    monkeypatch.setitem(mirror.TRACKERS, "mlflow", Book)
    with pytest.warns(UserWarning, match="tracker 'wandb' failed .* the run continues: no network"):
        folder = start(tiny(tmp_path / "a", "wandb", "mlflow"))
    assert (folder / "summary.json").exists()
    assert [s[0] for s in Book.made[0].said] == ["begin", 1]
    assert [s[0] for s in Book.made[1].said] == ["begin", 1, 2, 3, "end"]


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_named_before_anything_begins(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"'{name}', which is not installed.*unalike\[{name}\]"):
        start(tiny(tmp_path / "a", name))
    assert not (tmp_path / "a").exists()


def test_an_unknown_tracker_is_refused():
    with pytest.raises(ConfigError, match=r"'track.to' must be .*tensorboard.*mlflow.*wandb"):
        parse({"track": {"to": ["tensorbord"]}})


class Stand(ModuleType):
    """A module whose every function only remembers that it was called."""

    def __init__(self, name, **answers):
        super().__init__(name)
        self.calls, self.answers = [], answers

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args, **kwargs):
            self.calls.append((name, args, kwargs))
            return self.answers.get(name)

        return call


def test_mlflow(tmp_path, monkeypatch):
    info = SimpleNamespace(info=SimpleNamespace(run_id="abc"))
    point = namedtuple("Point", "step")
    client = Stand("client", create_run=info, get_metric_history=[point(1), point(2)])
    entities = SimpleNamespace(
        Param=lambda *a: a, Metric=lambda name, value, time, step: (name, value, step)
    )
    monkeypatch.setitem(sys.modules, "mlflow", Stand("mlflow", MlflowClient=client))
    sys.modules["mlflow"].entities = entities
    config = tiny(tmp_path / "a", "mlflow")
    folder = start(config)
    calls = [name for name, _, _ in client.calls]
    assert calls[:3] == ["get_experiment_by_name", "create_experiment", "create_run"]
    params = [kwargs["params"] for name, _, kwargs in client.calls if "params" in kwargs]
    assert all(len(p) <= 100 for p in params)
    settings = {k: str(v) for k, v in flat(config.resolved(), lists=True).items()}
    assert {k: v for p in params for k, v in p} == settings
    logged = [kwargs["metrics"] for _, _, kwargs in client.calls if "metrics" in kwargs]
    assert [{step for _, _, step in one} for one in logged] == [{1}, {2}, {3}]
    assert client.calls[-1][:2] == ("set_terminated", ("abc", "FINISHED"))
    client.calls.clear()
    (folder / "checkpoint" / "state.safetensors").unlink()  # all rounds are to do again
    (folder / "summary.json").unlink()
    (folder / "manifest.json").unlink()
    resume(folder)
    assert ("update_run", ("abc",), {"status": "RUNNING"}) in client.calls
    again = [kwargs["metrics"] for _, _, kwargs in client.calls if "metrics" in kwargs]
    assert [{step for _, _, step in one} for one in again] == [{3}]  # 1 and 2 are there


def test_wandb(tmp_path, monkeypatch):
    run = Stand("run")
    stand = Stand("wandb", init=run)
    monkeypatch.setitem(sys.modules, "wandb", stand)
    folder = start(tiny(tmp_path / "a", "wandb", track={"to": ["wandb"], "project": "mine"}))
    ((_, _, how),) = stand.calls
    assert (how["project"], how["name"], how["resume"]) == ("mine", "a", "allow")
    assert read_json(folder / "track.json") == {"wandb": how["id"]}
    assert [(n, k.get("step")) for n, _, k in run.calls] == [
        ("log", 1),
        ("log", 2),
        ("log", 3),
        ("save", None),
        ("save", None),
        ("finish", None),
    ]
    assert run.calls[-1][2] == {"exit_code": 0}


def test_tensorboard_writes_curves_that_it_reads_back(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = start(tiny(tmp_path / "a", "tensorboard"))
    read = EventAccumulator(str(folder / "tensorboard"))
    read.Reload()
    records = read_lines(folder / "rounds.jsonl")
    found = [(point.step, point.value) for point in read.Scalars("global/accuracy")]
    assert found == [
        (r["round"], pytest.approx(r["metrics"]["global"]["accuracy"]["mean"])) for r in records
    ]


def test_rounds_without_an_evaluation_still_count_bytes():
    record = {
        "bytes_down": 1,
        "bytes_up": 2,
        "bytes_across": 3,
        "samples": 10.0,
        "rejected": {"4": "NaN"},
        "metrics": None,
    }
    totals = {"bytes": 100.0}
    assert numbers(record, totals) == {"bytes": 106.0, "samples": 10.0, "refused": 1.0}


def test_undefined_numbers_are_left_out():
    spread = {"mean": None, "std": None, "worst10": None, "gini": 0.5}
    record = {
        "bytes_down": 0,
        "bytes_up": 0,
        "bytes_across": 0,
        "rejected": {},
        "metrics": {"local": {"accuracy": spread}},
    }
    found = numbers(record, {})
    assert found == {"bytes": 0.0, "samples": 0.0, "refused": 0.0, "local/accuracy_gini": 0.5}


def test_the_command_line_shows_its_own_warnings_alone():
    said = warned("tracker 'mlflow' failed", RunWarning, "execute.py", 141)
    assert said == "warning: tracker 'mlflow' failed\n"
    assert "numeric.py:3: RuntimeWarning" in warned("overflow", RuntimeWarning, "numeric.py", 3)
