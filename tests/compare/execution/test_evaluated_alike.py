"""Methods of a comparison are evaluated in the same rounds, by the sparsest of their cadences."""

from pathlib import Path

import pytest
from comparisons import run_here, tiny

from unalike.compare.execution import folder as place
from unalike.compare.execution.conduct import ready
from unalike.compare.execution.worker import Job
from unalike.compare.specification.spec import Comparison
from unalike.run.experiment import cadence
from unalike.run.folder.records import read_json, read_lines
from unalike.tune.space import tuning
from unalike.tune.trial import Trials

FEW = "[participation]\nnumber = 1"  # of four clients; pooled training goes over all rows
TWO = 'methods = ["fedavg", "pooled"]\nseeds = 1'
SAID = "All methods are evaluated in the same rounds, every 6 rounds and after the last; rounds"


@pytest.fixture(autouse=True)
def nothing_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small a run would be evaluated in every round, which takes no time."""
    monkeypatch.setattr(cadence, "FREE", 0)


def made(methods: str = TWO, rounds: int = 11, extra: str = FEW) -> Comparison:
    """A comparison whose methods would be evaluated unequally often."""
    found = tiny(methods, extra)
    assert len({c.condition for c in found.cells}) == 1
    for cell in found.cells:
        object.__setattr__(cell, "config", cell.config.model_copy(update={"rounds": rounds}))
    return found


def judged(folder: Path, cell: str) -> list[int]:
    """The rounds in which a cell was evaluated."""
    return [
        r["round"] for r in read_lines(folder / "cells" / cell / "rounds.jsonl") if r["metrics"]
    ]


def compared(found: Comparison, folder: Path) -> Comparison:
    """Everything but the processes: decided once, written down, run, and put into tables."""
    with place.held(found, folder, "", lambda new: ready(new, folder)) as placed:
        run_here(placed, folder)
    return placed


def test_all_are_evaluated_in_the_rounds_of_the_sparsest(tmp_path: Path) -> None:
    placed = compared(made(), tmp_path / "a")
    (every,) = placed.cadence.values()
    assert every > 2  # what eleven rounds allow
    for cell in placed.cells:
        assert judged(tmp_path / "a", cell.id) == [6, 11]
        own = read_json(tmp_path / "a" / cell.folder / "config.json")
        assert own["evaluation"]["every"] == 6  # the cell can be repeated alone
    assert SAID in " ".join((tmp_path / "a" / "table.md").read_text().split())
    assert place.read(tmp_path / "a").cadence == placed.cadence


def test_a_method_that_is_added_keeps_to_the_others(tmp_path: Path) -> None:
    first = compared(made('methods = ["pooled"]\nseeds = 1', 21), tmp_path / "a")
    (every,) = first.cadence.values()
    assert every < 7
    both = compared(made('methods = ["pooled", "fedavg"]\nseeds = 1', 21), tmp_path / "a")
    assert both.cadence == first.cadence
    rounds = [judged(tmp_path / "a", cell.id) for cell in both.cells]
    assert rounds == [[*range(every, 21, every), 21]] * 2  # fedavg alone would be judged less often


def test_a_stated_number_is_everybodys(tmp_path: Path) -> None:
    placed = compared(made(extra=f"{FEW}\n[evaluation]\nevery = 5"), tmp_path / "a")
    assert placed.cadence == {}
    assert [judged(tmp_path / "a", c.id) for c in placed.cells] == [[5, 10, 11]] * 2


def test_fewer_rounds_of_a_budget_have_two_evaluations(tmp_path: Path) -> None:
    (cell, *_) = made(rounds=7).cells
    at, config = str(tmp_path / "x"), cell.config.resolved()
    from unalike.compare.specification.settings import Budget
    from unalike.run.execute import Silent

    Job("x", at, config, Budget("rounds"), config, str(tmp_path), every=9).run(Silent())
    assert read_json(tmp_path / "x" / "config.json")["evaluation"]["every"] == 4


def test_trials_of_a_search_are_evaluated_alike() -> None:
    raw = {
        "rounds": 12,
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 10},
        "model": {"name": "logistic"},
        "participation": {"number": 1},
        "tune": {"seeds": 2, "search": {"local.epochs": [1.0, 20.0]}},
    }
    trials = Trials(tuning(raw))
    for epochs in (1.0, 20.0):  # twenty would pay for an evaluation in every round
        assert [t for t, _ in trials.scores({"local.epochs": epochs})] == [6, 12]
