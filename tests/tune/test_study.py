"""Searches on digits, resumed, pruned, refused, and blind to test rows."""

import builtins
import json
import math
import tomllib
from dataclasses import replace

import pytest

from unalike.engine.evaluation.server import Evaluator
from unalike.errors import ConfigError, RunError, UnalikeError
from unalike.run.configuration.config import parse
from unalike.tune import study as searching
from unalike.tune.space import tuning
from unalike.tune.study import Stopped, best, search
from unalike.tune.trial import Trials

pytest.importorskip("optuna", reason="the extra 'tune' is not installed")

RAW = {
    "rounds": 2,
    "data": {"name": "digits"},
    "partition": {"clients": 4, "min_size": 20},
    "model": {"hidden": [4]},
}


def made(search=None, **tune):
    space = search or {"local.lr": [0.001, 1.0, "log"]}
    return tuning({**RAW, "tune": {"search": space, "trials": 3, **tune}})


def test_a_search_finds_the_better_settings_and_writes_them(tmp_path):
    found = made({"local.lr": [0.0001, 0.05, 0.3]})
    records = search(found, tmp_path)
    assert len(records) == 3
    assert records[0]["settings"] == {"local.lr": 0.05}  # the file's own come first
    winner = best(records)
    assert winner["score"] == max(r["score"] for r in records if r["score"] is not None)
    config = parse(tomllib.loads((tmp_path / "best.toml").read_text()))
    assert config.local.lr == winner["settings"]["local.lr"]
    lines = (tmp_path / "trials.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records


def test_a_score_is_the_mean_over_seeds(tmp_path):
    values = {"local.lr": 0.1}
    both = dict(Trials(made(seeds=2)).scores(values))
    one = dict(Trials(made()).scores(values))
    section = {"search": {"local.lr": [0.001, 1.0, "log"]}}
    other = dict(Trials(tuning({**RAW, "seed": 1, "tune": section})).scores(values))
    assert both == pytest.approx({t: (one[t] + other[t]) / 2 for t in one})


def test_a_score_is_that_of_the_run_itself(tmp_path):
    from unalike.run.execute import start
    from unalike.run.folder.records import read_lines

    found = made()
    raw = found.filled({"local.lr": 0.1}) | {"run": {"folder": str(tmp_path / "run")}}
    records = read_lines(start(parse(raw)) / "rounds.jsonl")
    expected = {r["round"]: r["metrics"]["validation"]["accuracy"]["mean"] for r in records}
    assert dict(Trials(found).scores({"local.lr": 0.1})) == expected


def test_the_choice_is_the_same_whatever_the_tests_say(tmp_path, monkeypatch):
    found, real = made(), Evaluator.__call__
    untouched = search(found, tmp_path / "a")

    def without_tests(self, state):
        judged = real(self, state)
        return replace(judged, spread={"validation": judged.spread["validation"]})

    monkeypatch.setattr(Evaluator, "__call__", without_tests)
    assert search(found, tmp_path / "b") == untouched


def test_validation_rows_are_what_decides(tmp_path, monkeypatch):
    real = Evaluator.__call__

    def reversed_validation(self, state):
        judged = real(self, state)
        section = judged.spread["validation"]
        mean = 1 - section["accuracy"]["mean"]
        changed = {**section, "accuracy": {**section["accuracy"], "mean": mean}}
        return replace(judged, spread={**judged.spread, "validation": changed})

    found = made({"local.lr": [0.0001, 0.05, 0.3]}, pruning=False)
    one = best(search(found, tmp_path / "a"))
    monkeypatch.setattr(Evaluator, "__call__", reversed_validation)
    assert best(search(found, tmp_path / "b"))["settings"] != one["settings"]


def test_a_stopped_search_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    found = made()
    whole = search(found, tmp_path / "whole")
    real, calls = searching._attempt, []

    def attempt(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(searching, "_attempt", attempt)
    with pytest.raises(
        Stopped, match="stopped, 1 of 3 trials done; the same command continues the search"
    ):
        search(found, tmp_path / "halves")
    assert search(found, tmp_path / "halves") == whole


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize(
    ("raised", "seen"),
    [(KeyboardInterrupt, Stopped), (SystemExit, SystemExit)],
    ids=["by Ctrl-C", "by a kill, which leaves it running"],
)
def test_an_interrupted_trial_is_done_again(tmp_path, monkeypatch, raised, seen, at):
    found, real, calls = made(), Trials.scores, []
    whole = search(found, tmp_path / "whole")
    assert whole[0]["settings"] == {"local.lr": 0.05}

    def interrupted(self, values):
        calls.append(values)
        yield from real(self, values)
        if len(calls) == at:
            raise raised

    monkeypatch.setattr(Trials, "scores", interrupted)
    with pytest.raises(seen):
        search(found, tmp_path / "halves")
    assert search(found, tmp_path / "halves") == whole


def test_a_search_by_estimators_is_the_same_however_often_it_is_stopped(tmp_path, monkeypatch):
    """Past the ten random trials settings depend on all trials before, pruned ones too."""
    space = {"local.lr": [0.001, 1.0, "log"], "local.batch_size": [16, 32, 64]}
    found, begun, stops = made(space, trials=20), [], []

    def scores(self, values):
        begun.append(values)
        best = -abs(math.log(values["local.lr"] / 0.1)) - values["local.batch_size"] / 100
        for t in (1, 2, 3):
            yield t, best - 1 / t
            if t == 2 and stops and len(begun) >= stops[0][0]:
                raise stops.pop(0)[1]

    monkeypatch.setattr(Trials, "scores", scores)
    whole = search(found, tmp_path / "whole")
    states = [r["state"] for r in whole]
    assert "pruned" in states[:10]
    assert "complete" in states[10:]
    begun.clear()
    stops += [(3, KeyboardInterrupt), (9, SystemExit), (12, KeyboardInterrupt), (16, SystemExit)]
    for _, raised in stops.copy():
        with pytest.raises(Stopped if raised is KeyboardInterrupt else raised):
            search(found, tmp_path / "parts")
    assert len(begun) > 12  # two of the stops came after the random trials
    assert search(found, tmp_path / "parts") == whole


def test_own_settings_that_wait_are_not_tried_twice(tmp_path, monkeypatch):
    """The first search ends before its first trial begins."""

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(searching, "_attempt", interrupted)
        with pytest.raises(Stopped, match="0 of 3 trials done"):
            search(made(), tmp_path)
    records = search(made(), tmp_path)
    assert [r["settings"]["local.lr"] == 0.05 for r in records] == [True, False, False]


def test_only_one_search_at_a_time_in_a_folder(tmp_path, monkeypatch):
    def scores(self, values):
        with pytest.raises(RunError, match="is in use by another process"):
            search(made(), tmp_path)
        yield 1, 0.5

    monkeypatch.setattr(Trials, "scores", scores)
    assert [r["state"] for r in search(made(), tmp_path)] == ["complete"] * 3


def test_data_that_cannot_be_had_are_no_failed_trials(tmp_path):
    path = tmp_path / "wards.csv"
    raw = {**RAW, "data": {"name": "files", "path": str(path), "label": "sick"}}
    found = tuning({**raw, "tune": {"search": {"local.lr": [0.01, 1.0]}, "trials": 1}})
    with pytest.raises(UnalikeError, match=r"wards\.csv"):
        search(found, tmp_path / "out")
    path.write_text("x,sick\n" + "".join(f"{i * i % 17},{i % 2}\n" for i in range(200)))
    assert [r["state"] for r in search(found, tmp_path / "out")] == ["complete"]


def test_trials_below_the_median_are_pruned(tmp_path, monkeypatch):
    def scores(self, values):
        yield from ((t, values["local.lr"]) for t in (1, 2, 3))

    monkeypatch.setattr(Trials, "scores", scores)
    states = [r["state"] for r in search(made(trials=12), tmp_path / "a")]
    assert "pruned" in states
    kept = search(made(trials=12, pruning=False), tmp_path / "b")
    assert {r["state"] for r in kept} == {"complete"}


def test_settings_that_cannot_be_trained_are_written_down(tmp_path, monkeypatch):
    def scores(self, values):
        if values["local.lr"] > 0.2:
            raise RunError("training has diverged.")
        yield 1, 0.5

    monkeypatch.setattr(Trials, "scores", scores)
    records = search(made({"local.lr": [0.1, 0.3, 0.5]}, trials=8), tmp_path / "a")
    assert {r["error"] for r in records if r["state"] == "failed"} == {"training has diverged."}
    assert best(records)["settings"] == {"local.lr": 0.1}
    with pytest.raises(RunError, match=r"no trial could be finished; the first: training has"):
        search(made({"local.lr": [0.3, 0.5, 0.7]}, trials=2), tmp_path / "b")


def test_another_search_in_the_folder_is_refused(tmp_path):
    place = tmp_path / "here" / "search"
    search(made(trials=1), place)
    assert len(search(made(trials=2), place)) == 2  # more trials are welcome
    with pytest.raises(RunError, match="holds a search of other settings"):
        search(made(trials=1, seeds=2), place)
    with pytest.raises(RunError, match="is not empty"):
        search(made(), place.parent)
    assert list(place.parent.iterdir()) == [place]
    with pytest.raises(RunError, match="is a file"):
        search(made(), place / "tune.json")


def test_without_optuna_one_sentence(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "optuna":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match=r"pip install 'unalike\[tune\]'"):
        searching.optuna()


def test_the_command(tmp_path, unalike):
    file, place = tmp_path / "a.toml", tmp_path / "[/out]"
    file.write_text(
        'rounds = 2\n[partition]\nclients = 4\n[model]\nname = "mlp"\nhidden = [4]\n'
        '[tune]\ntrials = 2\nsearch = { "local.lr" = [0.01, 0.5, "log"] }\n'
    )
    code, out, err = unalike("tune", str(file), "--folder", str(place))
    assert (code, err) == (0, "")
    for words in ("[local]\nlr = ", f"unalike run {place}", "test rows took no part"):
        assert words in out
    assert "trial 2 of 2: local.lr = " in out  # a log is told of every trial


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw + b"garbage\n{}\n",
        lambda raw: b"\xff\xfe\x00" * 100 + b"\n" + raw,
        lambda raw: raw[:300] + b"###" + raw[303:],
        lambda raw: b"5\n" + raw,
        lambda raw: b"{}\n" + raw,
    ],
)
def test_a_damaged_journal_is_named(damage, tmp_path):
    search(made(), tmp_path)
    journal = tmp_path / "study.jsonl"
    journal.write_bytes(damage(journal.read_bytes()))
    with pytest.raises(RunError, match=r"study\.jsonl' is damaged"):
        search(made(trials=4), tmp_path)


def test_a_lock_that_a_killed_process_left_behind(tmp_path):
    search(made(), tmp_path)
    (tmp_path / "study.jsonl.lock").symlink_to("study.jsonl")
    assert len(search(made(trials=4), tmp_path)) == 4


def test_a_line_that_was_cut_short_is_tried_again(tmp_path):
    whole = search(made(trials=4), tmp_path / "whole")
    search(made(), tmp_path / "cut")
    journal = tmp_path / "cut" / "study.jsonl"
    journal.write_bytes(journal.read_bytes()[:-15])
    found = search(made(trials=4), tmp_path / "cut")
    assert [r["settings"] for r in found if r["state"] != "interrupted"] == [
        r["settings"] for r in whole
    ]
