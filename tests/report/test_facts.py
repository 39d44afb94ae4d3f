"""Settings, environments and commands as the report tells them."""

import tomllib

import pytest
from written_runs import config, write_comparison, write_run

from unalike.report.html import facts
from unalike.report.records import Reader
from unalike.run.config import parse


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


def test_methods_are_described_with_their_settings(tmp_path):
    write_run(config(tmp_path, method={"name": "fedprox", "mu": 0.5}, plus=[{"name": "fedadam"}]))
    (method,) = facts.methods(Reader(tmp_path).read())
    assert method.label == "fedprox + fedadam"
    assert [name for name, _, _ in method.parts] == ["fedprox", "fedadam"]
    assert ("fedprox.mu", "0.5") in method.settings
    assert "arXiv 1812.06127" in method.parts[0][2]


def test_a_method_this_version_does_not_know_is_shown_by_name(tmp_path):
    folder = write_run(config(tmp_path))
    text = (folder / "config.json").read_text().replace('"fedavg"', '"of the future"')
    (folder / "config.json").write_text(text)
    (method,) = facts.methods(Reader(tmp_path).read())
    assert method.parts == [("of the future", "", "")]


def test_settings_in_which_runs_differ_are_all_shown(tmp_path):
    write_run(config(tmp_path / "a", local={"lr": 0.1}))
    write_run(config(tmp_path / "b", local={"lr": 0.2}))
    shown = dict(facts.common(Reader(tmp_path).read()))
    assert shown["local.lr"] == "0.1 or 0.2"
    assert shown["rounds"] == "6"


def test_the_command_of_a_run_is_the_one_that_was_typed(tmp_path):
    folder = write_run(config(tmp_path / "a"))
    assert facts.commands(Reader(folder).read())[0] == "unalike run config.toml"
    (folder / "environment.json").write_text('{"command": "unalike run my.toml"}')
    assert facts.commands(Reader(folder).read())[0] == "unalike run my.toml"


def test_the_command_of_a_comparison_names_its_file_or_preset(tmp_path):
    study = Reader(write_comparison(tmp_path / "my folder", finished=1)).read()
    typed = ["unalike compare compare.toml", f"unalike report '{tmp_path}/my folder'"]
    assert facts.commands(study) == typed
    study.plan["source"] |= {"name": "quickstart", "scale": "small", "overrides": ["rounds=3"]}
    again = "unalike compare quickstart --scale small --set rounds=3"
    assert facts.commands(study)[0] == again
    assert "[compare]" in dict(facts.files(study))["compare.toml"]


def test_the_environment_leaves_out_what_is_not_there(run_folder):
    shown = dict(facts.environment(Reader(run_folder).read()))
    assert shown == {"python": "3.11", "torch": "2.13", "engine": "vectorized"}
