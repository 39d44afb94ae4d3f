"""Comparisons that are stopped, killed, extended or tampered with, and end in the same tables."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from comparisons import TABLES, TINY, files, run_here, tiny
from interrupted import Killed

from unalike.compare.analysis.results import Results
from unalike.compare.execution import folder as place
from unalike.compare.execution.conduct import _job, conclude, conduct, preflight
from unalike.compare.specification.settings import Budget
from unalike.compare.specification.spec import Comparison, loads
from unalike.errors import ConfigError, RunError
from unalike.run.experiment.build import experiment
from unalike.run.experiment.live import Experiment
from unalike.run.folder.records import alone, read_json, read_lines

COMPARE = """
methods = ["fedavg", "scaffold"]
partitions = ["iid", { name = "dirichlet", clients = 4, alpha = 0.3, min_size = 10 }]
seeds = 2
"""


class Mortal:
    """Lives for so many rounds."""

    def __init__(self, lives: Iterator[int]) -> None:
        self.lives = lives

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """May die before the first round."""
        self.round({})

    def round(self, record: dict[str, Any]) -> None:
        """May die after any."""
        if next(self.lives, 1) == 0:
            raise Killed

    def stopping(self) -> None:
        """Never asked."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison that nobody disturbed."""
    folder = tmp_path_factory.mktemp("reference") / "a"
    run_here(place.create(tiny(COMPARE), folder, ""), folder)
    return folder


def test_killed_again_and_again_ends_in_the_same_tables(tmp_path, reference):
    """The process dies at every stage of a run; each time all is read anew from the folder."""
    folder, deaths = tmp_path / "a", 0
    place.create(tiny(COMPARE), folder, "")
    for lives in cycle([0, 1, 2, 5, 3, 11, 4]):
        try:
            run_here(place.read(folder), folder, Mortal(iter([1] * lives + [0])))
        except Killed:
            deaths += 1
            continue
        break
    assert deaths >= 7
    assert files(folder, *TABLES) == files(reference, *TABLES)


def test_a_finished_comparison_runs_nothing(tmp_path, reference):
    folder = copytree(reference, tmp_path / "a")
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("cells/**/*") if p.is_file()}
    (folder / "results.jsonl").unlink()  # can be made from the cells
    outcome = conduct(place.read(folder), folder)
    assert not outcome.failed
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert files(folder, *TABLES) == files(reference, *TABLES)


def test_a_half_written_line_of_results_is_no_harm(tmp_path, reference):
    folder = copytree(reference, tmp_path / "a")
    with (folder / "results.jsonl").open("a") as f:
        f.write('{"id": "fedav')
    conduct(place.read(folder), folder)
    assert files(folder, *TABLES) == files(reference, *TABLES)


def test_results_are_in_the_order_of_the_cells_whatever_finished_first(tmp_path):
    folder = tmp_path / "a"
    made = place.create(tiny('methods = ["fedavg", "fedprox"]\nseeds = 2'), folder, "")
    results = Results(made, folder)
    for cell in reversed(made.cells):
        _job(made, folder, cell).run(Mortal(iter(())))
        results.add(cell)
        assert read_lines(folder / "results.jsonl")[-1]["id"] == cell.id  # it is there at once
    conclude(made, folder, results)
    found = [r["id"] for r in read_lines(folder / "results.jsonl")]
    assert found == [c.id for c in made.cells]


def test_cells_are_ordinary_runs_and_results_hold_their_numbers(tmp_path):
    folder = tmp_path / "a"
    made = place.create(tiny('methods = ["fedavg"]\nseeds = 1'), folder, "x = 1")
    run_here(made, folder)
    cell = folder / made.cells[0].folder
    summary = read_json(cell / "summary.json")
    (record,) = read_lines(folder / "results.jsonl")
    assert record["value"] == summary["selected"]["local"]["accuracy"]["mean"]
    assert record["ledger"]["bytes"] == summary["bytes_down"] + summary["bytes_up"]
    assert record["ledger"]["samples"] == summary["samples"]
    assert (folder / "compare.toml").read_text() == "x = 1"
    assert read_json(cell / "config.json")["run"]["folder"] == str(cell)


def test_seeds_are_paired_across_methods(tmp_path):
    """One federation, one initialisation, the same cohorts and batches for every method."""
    extra = "[participation]\nfraction = 0.5\n"
    compare = 'methods = ["fedavg", { name = "fedprox", mu = 0.0 }, "scaffold"]\nseeds = 2'
    folder = tmp_path / "a"
    made = place.create(tiny(compare, extra), folder, "")
    run_here(made, folder)
    for seed in (0, 1):
        cells = [c for c in made.cells if c.seed == seed]
        skew = [read_json(folder / c.folder / "skew.json")["counts"] for c in cells]
        assert skew[0] == skew[1] == skew[2]
        cohorts = [
            [r["clients"] for r in read_lines(folder / c.folder / "rounds.jsonl")] for c in cells
        ]
        assert cohorts[0] == cohorts[1] == cohorts[2]
        weights = [experiment(c.config).w for c in cells]
        assert all((weights[0][k] == w[k]).all() for w in weights for k in w)
    values = {(r["label"], r["seed"]): r["value"] for r in read_lines(folder / "results.jsonl")}
    for seed in (0, 1):  # the same batches: a proximal term of no strength changes nothing
        assert values["fedavg", seed] == values["fedprox", seed]
    assert values["fedavg", 0] != values["fedavg", 1]


def test_equal_bytes_are_kept_to_by_whole_runs(tmp_path):
    folder = tmp_path / "a"
    compare = 'methods = ["fedavg", "scaffold", "phase_shift"]\nseeds = 1\nbudget = "bytes"'
    made = place.create(tiny(compare, "[local]\nepochs = 0.2\n"), folder, "")
    made = place.read(folder)
    run_here(made, folder)
    records = {r["label"]: r["ledger"] for r in read_lines(folder / "results.jsonl")}
    assert [r["rounds"] for r in records.values()] == [3, 1, 3]
    assert records["phase_shift"]["bytes"] <= records["fedavg"]["bytes"]


def test_a_longer_file_goes_on_in_the_same_folder(tmp_path):
    folder = tmp_path / "a"
    run_here(place.create(tiny('methods = ["fedavg"]\nseeds = 1'), folder, ""), folder)
    done = folder / "cells" / "fedavg--dirichlet--seed0" / "summary.json"
    before = done.stat().st_mtime_ns
    longer = place.create(tiny('methods = ["fedavg", "fedprox"]\nseeds = 2'), folder, "")
    assert len(Results(longer, folder).left) == 3
    run_here(longer, folder)
    assert done.stat().st_mtime_ns == before
    assert len(read_lines(folder / "results.jsonl")) == 4


def test_another_comparison_is_not_mixed_in(tmp_path):
    folder = tmp_path / "a"
    place.create(tiny('methods = ["fedavg"]'), folder, "")
    with pytest.raises(RunError, match=r"cell 'fedavg--dirichlet--seed\d' has other settings"):
        place.create(tiny('methods = ["fedavg"]', "[local]\nlr = 0.5\n"), folder, "")
    with pytest.raises(RunError, match="with another budget"):
        place.create(tiny('methods = ["fedavg"]\nbudget = "bytes"'), folder, "")


def two(second: str, more: str = "") -> Comparison:
    """FedAvg and SCAFFOLD on one partition, and on a second if there is one."""
    return tiny(f'methods = ["fedavg", "scaffold"]\npartitions = ["iid"{second}]\nseeds = 1{more}')


@pytest.mark.parametrize("budget", ["rounds", "bytes", "samples"])
def test_a_cell_that_was_left_out_meanwhile_cannot_come_back_as_another(tmp_path, budget):
    """Its run is still there, and would be shown under the new settings."""
    folder, more = tmp_path / "a", f'\nbudget = "{budget}"'
    skewed = ', { name = "dirichlet", label = "B", alpha = %s, min_size = 10%s }'
    run_here(place.create(two(skewed % (0.1, ""), more), folder, "first"), folder)
    place.create(two("", more), folder, "second")
    before = files(folder, "compare.json", "compare.toml")
    for other in ((100, ""), (0.1, ", set.rounds = 2"), (0.1, ', set."local.lr" = 0.5')):
        with pytest.raises(RunError, match="whose cell 'fedavg--b--seed0' has other settings"):
            place.create(two(skewed % other, more), folder, "third")
    assert files(folder, "compare.json", "compare.toml") == before
    again = place.create(two(skewed % (0.1, ""), more), folder, "first")
    assert not Results(again, folder).left


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "config.json' is damaged"),
        ("[]", "whose cell 'fedavg--iid--seed0' has other settings"),
        ('{"roundz": 3}', "whose cell 'fedavg--iid--seed0' has other settings"),
    ],
)
def test_a_run_whose_settings_cannot_be_read_is_no_cell(tmp_path, text, part):
    made = place.create(two(""), tmp_path / "a", "")
    run = tmp_path / "a" / made.cells[0].folder
    run.mkdir(parents=True)
    (run / "config.json").write_text(text)
    with pytest.raises(RunError, match=part):
        place.create(two(""), tmp_path / "a", "")


@pytest.mark.parametrize("kind", ["bytes", "samples"])
def test_a_budget_is_not_measured_on_two_baselines(tmp_path, kind):
    """Finished cells would keep the rounds that the first one's use bought them."""
    folder, budget = tmp_path / "a", f'budget = "{kind}"\n'
    place.create(tiny(f'{budget}methods = ["fedavg", "fedprox"]'), folder, "")
    before = files(folder, "compare.json", "compare.toml")
    for methods in (
        'methods = ["scaffold", "fedavg", "fedprox"]',
        'methods = ["fedavg", "fedprox"]\nbaseline = "fedprox"',
    ):
        with pytest.raises(RunError, match=f"budget is the {kind} that another baseline uses"):
            place.create(tiny(budget + methods), folder, methods)
    assert files(folder, "compare.json", "compare.toml") == before
    place.create(
        tiny(f'{budget}methods = ["fedavg", "fedprox", "scaffold"]\nseeds = 9'), folder, ""
    )


def test_the_baseline_is_free_where_it_sets_no_budget(tmp_path):
    for name, budget in (("rounds", '"rounds"'), ("bytes", "{ bytes = 5000 }")):
        for methods in ('["fedavg"]', '["scaffold", "fedavg"]'):
            made = tiny(f"budget = {budget}\nmethods = {methods}")
            place.create(made, tmp_path / name, "")


def test_a_baseline_of_one_name_and_other_settings_is_another(tmp_path):
    """Its cells may lie elsewhere, and would then not be compared one by one."""
    folder = tmp_path / "a"
    made = place.create(tiny('methods = ["fedavg", "fedprox"]\nbudget = "bytes"'), folder, "")
    moved = [replace(c, id=f"{c.id}-x") if c.label == "fedavg" else c for c in made.cells]
    place.create(replace(made, cells=moved), folder, "")
    slow = [replace(c, config=c.config.model_copy(update={"rounds": 9})) for c in made.cells]
    with pytest.raises(RunError, match="that another baseline uses"):
        place.create(replace(made, cells=[c for c in slow if c.label == "fedavg"]), folder, "")


def test_folders_that_are_none(tmp_path):
    (tmp_path / "x.txt").write_text("mine")
    with pytest.raises(RunError, match="already exists and is not a comparison"):
        place.create(tiny('methods = ["fedavg"]'), tmp_path, "")
    with pytest.raises(RunError, match="there is no folder"):
        place.read(tmp_path / "none")
    with pytest.raises(RunError, match=r"the folder '/proc/x' cannot be made: .*; name another"):
        place.create(tiny('methods = ["fedavg"]'), Path("/proc/x"), "")
    with pytest.raises(RunError, match="cannot be made: Not a directory"):
        place.create(tiny('methods = ["fedavg"]'), tmp_path / "x.txt" / "a", "")
    with pytest.raises(RunError, match="cannot be made: File name too long"):
        place.create(tiny('methods = ["fedavg"]'), tmp_path / ("a" * 300), "")
    (tmp_path / "compare.json").write_text('{"format": 99}')
    with pytest.raises(RunError, match="another version"):
        place.read(tmp_path)
    (tmp_path / "compare.json").write_text('{"format": 1}')
    with pytest.raises(RunError, match="is damaged"):
        place.read(tmp_path)
    (tmp_path / "compare.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        place.read(tmp_path)


def test_a_folder_reads_back_as_it_was_made(tmp_path):
    text = 'methods = ["fedavg"]\nbudget = { bytes = "1 MB", longest = 3 }\nsweep.local.lr = [0.1]'
    made = place.create(tiny(text), tmp_path / "a", "")
    assert place.read(tmp_path / "a") == made
    path = tmp_path / "a" / "compare.json"
    raw = json.loads(path.read_text())
    assert raw["format"] == 2
    first = {k: v for k, v in raw.items() if k not in ("rows", "margin", "target")}
    path.write_text(json.dumps({**first, "format": 1, "interval": "bootstrap", "test": "t"}))
    assert place.read(tmp_path / "a").judging == made.judging.model_copy(update={"test": "t"})


def test_two_processes_do_not_share_a_folder(tmp_path):
    folder = tmp_path / "a"
    made = place.create(tiny('methods = ["fedavg"]'), folder, "")
    before = files(folder, "compare.json", "compare.toml")
    with alone(folder):
        with pytest.raises(RunError, match="in use by another process"):
            conduct(made, folder)
        with pytest.raises(RunError, match="in use by another process"):
            place.create(tiny('methods = ["fedavg", "fedprox"]'), folder, "other")
    assert files(folder, "compare.json", "compare.toml") == before


def test_a_comparison_that_begins_holds_its_folder(tmp_path):
    folder, made = tmp_path / "a", tiny('methods = ["fedavg"]')
    with place.held(made, folder, "") as placed:
        assert placed == place.read(folder)
        with pytest.raises(RunError, match="in use by another process"):
            place.create(made, folder, "")
    place.create(made, folder, "")


@pytest.mark.parametrize(
    ("compare", "part"),
    [
        ('methods = ["fedavg", { name = "fednova", topology = "ring" }]', "cannot run on"),
        ('methods = ["fedavg"]\nsweep.participation.number = [2, 9]', "only 4 clients"),
        ('methods = [{ name = "fedprox", plus = ["fedprox"] }]', "both set the objective"),
        (
            'methods = ["fedavg"]\npartitions = [{ name = "limit_label", clients = 7 }]',
            "method 'fedavg' on 'limit_label'",
        ),
        (
            'methods = ["fedavg", "latent_disco"]\nbudget = "bytes"\n'
            'partitions = [{ name = "iid", model = "vae" }]\nmetric = "loss"',
            "the bytes of a run whose stages each have all . rounds cannot be computed beforehand",
        ),
        (
            'methods = ["fedavg", { name = "lg_fedavg", warm_start = 2 }]\nbudget.samples = 9',
            "method 'lg_fedavg' on 'dirichlet': 'compare.budget' buys too few rounds: .*; raise "
            "compare.budget.samples or change the method",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(tmp_path, compare, part):
    folder = tmp_path / "a"
    made = place.create(tiny(compare), folder, "")
    with pytest.raises((ConfigError, RunError, Exception), match=part) as error:
        conduct(made, folder)
    assert "\n" not in str(error.value)
    assert not (folder / "cells").exists()


def test_preflight_builds_each_kind_once(monkeypatch, tmp_path):
    """One federation, and a task for each model."""
    from unalike.compare.execution import conduct as module

    built, learned = [], []
    federation, task = module.federation, module.task
    monkeypatch.setattr(module, "federation", lambda c: built.append(c.seed) or federation(c))
    monkeypatch.setattr(module, "task", lambda c, x: learned.append(c.model.name) or task(c, x))
    wide = '{ name = "fedavg", set = { model = { hidden = [9] } }, label = "wide" }'
    some = tiny(f'methods = ["fedavg", "fedprox", {wide}]\npartitions = ["iid"]\nseeds = 3')
    preflight(place.create(some, tmp_path / "a", "").cells, Budget("rounds"))
    assert built == [0]
    assert len(learned) == 2


def test_a_metric_that_a_run_does_not_have_is_said(tmp_path):
    folder = tmp_path / "a"
    made = loads(f'{TINY}\n[compare]\nmethods = ["fedavg"]\nseeds = 1\nmetric = "top5"', "x")
    made = place.create(made, folder, "")
    run_here(made, folder)
    path = folder / made.cells[0].folder / "summary.json"
    summary = read_json(path)
    del summary["selected"]["local"]["top5"]
    path.write_text(json.dumps(summary))
    (why,) = Results(made, folder).failed.values()
    assert "has no metric 'top5'; it has accuracy" in why
