"""Gaps, budgets, environments and commands as the report tells them."""

import json
import tomllib
from dataclasses import replace

import pytest
from written_runs import COMPARISON, config, write_comparison, write_run

from unalike.cli.comparing import source as source_of
from unalike.compare.execution import folder as comparison
from unalike.compare.specification.spec import loads
from unalike.report.html import facts
from unalike.report.records import Place, Reader
from unalike.run.configuration.config import parse


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": {"name": "fedprox", "mu": 1e-05}, "plus": [{"name": "fedadam"}]},
        {"shift": [{"name": "noise"}], "seed": 3},
        {"data": {"name": "digits"}, "model": {"name": "mlp", "hidden": [4, 5]}},
    ],
)
def test_a_written_configuration_reads_the_same(tmp_path, changes):
    made = config(tmp_path / 'a "quoted" \\ folder', **changes)
    assert parse(tomllib.loads(facts.toml(made.resolved()))) == made


def test_the_command_of_a_run_is_the_one_that_was_typed(tmp_path):
    folder = write_run(config(tmp_path / "a"))
    assert facts.commands(Reader(folder).read())[0] == "unalike run config.toml"
    (folder / "environment.json").write_text('{"command": "unalike run my.toml"}')
    assert facts.commands(Reader(folder).read())[0] == "unalike run my.toml"


def test_runs_without_a_recorded_command_have_a_file_each(tmp_path):
    for name in ("a", "b"):
        write_run(config(tmp_path / name))
    study = Reader(tmp_path).read()
    assert facts.commands(study)[:2] == ["unalike run a.toml", "unalike run b.toml"]
    assert [name for name, _ in facts.files(study)] == ["a.toml", "b.toml"]


def test_the_command_of_a_comparison_names_its_file(tmp_path):
    study = Reader(write_comparison(tmp_path / "my folder", finished=1)).read()
    typed = ["unalike compare skews.toml", f"unalike report '{tmp_path}/my folder'"]
    assert facts.commands(study) == typed
    assert "[compare]" in dict(facts.files(study))["skews.toml"]


@pytest.mark.parametrize("source", [{}, {"preset": False}])
def test_a_file_with_the_name_of_a_preset_is_a_file(tmp_path, source):
    study = Reader(write_comparison(tmp_path, finished=0)).read()
    named = {"name": "quickstart", "scale": None, "overrides": [], **source}
    study = replace(study, asked=replace(study.asked, source=named))
    assert facts.commands(study)[0] == "unalike compare quickstart.toml"
    ((name, text),) = facts.files(study)
    (tmp_path / name).write_text(text)
    again = loads(*source_of(str(tmp_path / name))[:2])
    assert again.labels == study.methods


def test_the_command_of_a_preset_names_it(tmp_path):
    study = Reader(write_comparison(tmp_path, finished=0)).read()
    named = {"name": "quickstart", "preset": True, "scale": "small", "overrides": ["rounds=3"]}
    study = replace(study, asked=replace(study.asked, source=named))
    again = "unalike compare quickstart --scale small --set rounds=3"
    assert facts.commands(study)[0] == again


def budget(folder, changes):
    text = COMPARISON.replace('label = "FedProx"', f'label = "FedProx"{changes}')
    return facts.budget(Reader(write_comparison(folder, text, finished=0)).read())


def test_equal_rounds_are_told(tmp_path):
    assert budget(tmp_path, "") == "All methods were given equal rounds (6)."


def test_a_method_with_rounds_of_its_own_is_named(tmp_path):
    said = budget(tmp_path / "one", ", set = { rounds = 4 }")
    assert said == "All methods were given equal rounds (6), except FedProx (4)."
    more = ", set = { rounds = 4 } }, { name = 'median' }, { name = 'krum', set = { rounds = 5 }"
    said = budget(tmp_path / "more", more)
    assert said == "All methods were given equal rounds (6), except FedProx (4); krum (5)."


def test_rounds_that_a_partition_sets_are_equal_for_all(tmp_path):
    text = COMPARISON.replace("alpha = 1.0", "alpha = 1.0, set = { rounds = 9 }")
    said = facts.budget(Reader(write_comparison(tmp_path, text, finished=0)).read())
    assert said == "All methods were given equal rounds (6 or 9)."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('"bytes"', "equal bytes (as many as FedAvg uses in its rounds)"),
        ('{ bytes = "1 MB" }', "equal bytes (1 MB)"),
        ("{ samples = 50000 }", "equal samples (50k)"),
    ],
)
def test_other_budgets(tmp_path, given, said):
    text = COMPARISON.replace("seeds = 3", f"seeds = 3\nbudget = {given}")
    study = Reader(write_comparison(tmp_path, text, finished=0)).read()
    assert facts.budget(study) == f"All methods were given {said}."


def test_runs_that_are_missing_are_told_with_their_reason(tmp_path):
    folder = write_comparison(tmp_path, finished=14)
    plan = comparison.read(folder)
    failed = {c.id: "the loss is not finite." for c in plan.cells[-3:-1]}
    failed[plan.cells[0].id] = "told of a run that was finished since."
    (folder / "failed.json").write_text(json.dumps(failed))
    write_run(plan.cells[14].config, rounds=2)
    one, two = "dirichlet alpha=0.1", "dirichlet alpha=1"
    assert facts.gaps(Reader(folder).read(), {}) == [
        ("Failed: the loss is not finite.", f"FedAvg on {two}, seed 2; FedProx on {two}, seed 2"),
        ("Started, not finished.", f"SCAFFOLD on {one}, seed 2"),
        ("Not started.", f"SCAFFOLD on {two}, seed 2"),
    ]


def test_seeds_of_one_reason_are_told_together(tmp_path):
    study = Reader(write_comparison(tmp_path, finished=0)).read()
    ((reason, runs),) = facts.gaps(study, {})
    assert reason == "Not started."
    assert runs.startswith("FedAvg on dirichlet alpha=0.1, seeds 0, 1 and 2; ")


def test_many_missing_runs_are_counted():
    cells = [Place("", f"m{i}", "iid", seed, None) for i in range(9) for seed in (0, 1)]
    assert facts._listed(cells).endswith("m5 on iid, seeds 0 and 1; and 6 more")


def test_a_finished_comparison_has_no_gaps(comparison_folder):
    assert facts.gaps(Reader(comparison_folder).read(), {}) == []


def test_the_environment_leaves_out_what_is_not_there(run_folder):
    shown = dict(facts.environment(Reader(run_folder).read()))
    assert shown == {"python": "3.11", "torch": "2.13", "engine": "vectorized"}
