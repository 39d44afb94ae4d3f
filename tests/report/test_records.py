"""What is read from folders: runs, comparisons, folders of runs, finished or not."""

import json

import pytest
from written_runs import append_round, config, write_comparison, write_run

from unalike.compare.specification.spec import comparison
from unalike.errors import RunError
from unalike.report.records import Reader, read_run


def test_a_run_is_a_study_of_one(run_folder):
    study = Reader(run_folder).read()
    assert (study.kind, study.methods, study.partitions) == ("run", ["fedavg"], ["dirichlet"])
    assert study.finished
    ((_, run),) = study.begun
    assert (len(run.rounds), run.seconds, run.summary["rounds"]) == (6, 3.0, 6)
    assert len(run.clients(6)["local"]["accuracy"]) == 12
    assert run.clients(7) is None


def test_a_comparison_keeps_its_labels_in_order(comparison_folder):
    study = Reader(comparison_folder).read()
    assert study.kind == "compare"
    assert study.title == "Two skews"
    assert study.methods == ["FedAvg", "FedProx", "SCAFFOLD"]
    assert study.partitions == ["dirichlet alpha=0.1", "dirichlet alpha=1"]
    assert len(study.places) == 18
    assert study.asked.baseline == "FedAvg"


def test_a_folder_of_runs_tells_them_apart(tmp_path):
    for mu in (0.1, 1.0):
        write_run(config(tmp_path / f"mu{mu}", method={"name": "fedprox", "mu": mu}))
    write_run(config(tmp_path / "avg"))
    study = Reader(tmp_path).read()
    assert study.kind == "runs"
    assert set(study.methods) == {"fedavg", "fedprox mu=0.1", "fedprox mu=1"}


def test_runs_that_differ_elsewhere_are_conditions_of_their_own(tmp_path):
    for lr in (0.1, 0.2):
        write_run(config(tmp_path / f"lr{lr}", local={"lr": lr}))
    study = Reader(tmp_path).read()
    assert study.methods == ["fedavg"]
    assert study.partitions == ["dirichlet lr=0.1", "dirichlet lr=0.2"]


def test_files_and_models_are_never_mixed(tmp_path):
    for path in ("a/north.csv", "a/south.csv"):
        for model in ("mlp", "logistic"):
            name = f"{path[2:]}-{model}"
            data = {"name": "files", "path": path}
            write_run(config(tmp_path / name, data=data, model=model))
    study = Reader(tmp_path).read()
    assert study.methods == ["fedavg"]
    assert len(set(study.partitions)) == 4
    begin = ("north: dirichlet model=", "south: dirichlet model=")
    assert all(p.startswith(begin) for p in study.partitions)
    assert study.title == "4 runs on north, south"


def test_the_same_settings_twice_are_known_by_their_folder(tmp_path):
    for name in ("one", "two"):
        write_run(config(tmp_path / name))
    assert Reader(tmp_path).read().methods == ["one", "two"]


def test_an_unfinished_run_is_summed_up_so_far(tmp_path):
    folder = write_run(config(tmp_path / "a"), rounds=2)
    run = read_run(folder)
    assert not run.finished
    assert run.summary["last"]["round"] == 2


def test_half_written_lines_are_left_for_later(tmp_path):
    made = config(tmp_path / "a")
    folder = write_run(made, rounds=2)
    for name in ("rounds.jsonl", "clients.jsonl"):
        with (folder / name).open("a") as f:
            f.write('{"round": 3, "loc')
    run = read_run(folder)
    assert len(run.rounds) == 2
    assert run.clients(3) is None


def test_a_run_that_only_has_its_settings(tmp_path):
    made = config(tmp_path / "a")
    write_run(made)
    for path in (tmp_path / "a").iterdir():
        if path.name != "config.json":
            path.unlink()
    run = read_run(tmp_path / "a")
    assert (run.rounds, run.data, run.summary) == ([], {}, None)


def test_only_what_changed_is_read_again(tmp_path):
    write_run(config(tmp_path / "a"))
    made = config(tmp_path / "b", seed=1)
    write_run(made, rounds=1)
    reader = Reader(tmp_path)
    before, old = reader.signature(), reader.read()
    assert reader.signature() == before
    append_round(made, 2)
    assert reader.signature() != before
    new = reader.read()
    assert new.places[0].run is old.places[0].run
    assert len(new.places[1].run.rounds) == 2


def test_cells_that_have_not_begun_have_no_run(tmp_path):
    study = Reader(write_comparison(tmp_path / "c", finished=4)).read()
    assert [c.run is not None for c in study.places] == [True] * 4 + [False] * 14
    assert not study.finished


def test_runs_have_the_labels_that_a_comparison_of_them_has(tmp_path):
    """Methods with settings, combinations and lists of numbers."""
    methods = [
        {"name": "fedprox", "mu": 0.1},
        {"name": "fedprox", "mu": 1.0},
        {"name": "fedavg", "plus": ["fedadam"]},
    ]
    partitions = [
        {"name": "mixed", "sizes": [2, 8]},
        {"name": "mixed", "sizes": [5, 5]},
        {"name": "dirichlet"},
    ]
    made = comparison({"compare": {"methods": methods, "partitions": partitions, "seeds": 1}})
    for cell in made.cells:
        changed = cell.config.run.model_copy(update={"folder": str(tmp_path / cell.id)})
        write_run(cell.config.model_copy(update={"run": changed}))
    study = Reader(tmp_path).read()
    assert set(study.methods) == set(made.labels)
    assert set(study.partitions) == set(made.conditions)
    assert "mixed sizes=2/8" in study.partitions


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"has no records: give the folder of a run \(with config.json\)"),
        ({"config.json": "{"}, "config.json' is damaged"),
        ({"config.json": "[]"}, "config.json' is not a configuration"),
        ({"compare.json": '{"format": 1, "cells": [{"id": "a"}]}'}, r"is damaged \('config'\)"),
        ({"compare.json": "[]"}, "was written by another version of unalike"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(RunError, match=message):
        Reader(tmp_path).read()


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(RunError, match=r"there is no folder '.*nowhere'"):
        Reader(tmp_path / "nowhere").read()


def test_damage_in_the_middle_is_named(tmp_path):
    folder = write_run(config(tmp_path / "a"))
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    (folder / "rounds.jsonl").write_text("\n".join([lines[0], "{", *lines[2:]]))
    with pytest.raises(RunError, match=r"line 2 of .* is damaged"):
        Reader(folder).read()
    assert json.loads(lines[0])["round"] == 1


def test_cells_that_failed_are_read_with_their_reasons(tmp_path):
    reader = Reader(write_comparison(tmp_path, finished=1))
    assert reader.read().failed == {}
    before = reader.signature()
    (tmp_path / "failed.json").write_text(json.dumps({"a cell": "a reason."}))
    assert reader.signature() != before
    assert reader.read().failed == {"a cell": "a reason."}


def test_a_cell_has_its_planned_configuration_until_it_begins(tmp_path):
    first, *_, last = Reader(write_comparison(tmp_path, finished=1)).read().places
    assert first.config is first.run.config
    assert (last.run, last.config["rounds"], last.config["seed"]) == (None, 6, 2)
