"""A folder of many runs stays readable: a sentence and a table in place of a line for each."""

from pathlib import Path

import pytest
from written_runs import config, write_run

from unalike.report.html.facts import commands
from unalike.report.html.page import _data_figures
from unalike.report.html.results import results
from unalike.report.records import Reader, Study


def study(place: Path, rates: int, seeds: int = 1) -> Study:
    for method in ("fedavg", "fedprox"):
        for i in range(rates):
            for seed in range(seeds if method == "fedavg" else 1):
                made = config(
                    place / f"{method}-{i}-{seed}",
                    method=method,
                    seed=seed,
                    local={"lr": 0.1 * (i + 1)},
                    rounds=1,
                )
                write_run(made, quality=0.5 + 0.01 * i)
    return Reader(place).read()


def test_few_runs_have_a_sentence_each_with_their_condition(tmp_path: Path) -> None:
    found = results(study(tmp_path, 3))
    assert len(found.sentences) == 6
    assert found.sentences[0].startswith("dirichlet lr=0.1: fedavg, selected round 1: accuracy")
    assert found.overview == []


def test_many_runs_are_one_sentence_and_one_table(tmp_path: Path) -> None:
    read = study(tmp_path, 20, seeds=2)
    found = results(read)
    assert found.sentences == [
        "60 runs, 60 of them finished: 2 methods under 20 conditions, 1 to 2 seeds each. The "
        "first table of the results shows their outcome."
    ]
    (table,) = found.overview
    assert table.columns == ["condition", "fedavg", "fedprox"]
    assert len(table.rows) == 20
    runs = [run for place, run in read.begun if place.method == "fedavg"][:2]
    means = [run.summary["selected"]["local"]["accuracy"]["mean"] for run in runs if run.summary]
    assert table.rows[0][1].value == pytest.approx(sum(means) / 2)
    assert table.rows[0][1].mark == " (n = 2)"
    assert table.rows[0][2].mark == ""
    typed = commands(read)
    assert len(typed) == 8
    assert typed[6] == "# and 54 more"


def test_the_same_partition_is_drawn_once(tmp_path: Path) -> None:
    """Rates differ, and who holds what does not."""
    read = study(tmp_path, 3)
    found = _data_figures(read, read.partitions, False)
    assert [len(some) for some in found.values()] == [len(found[read.partitions[0]]), 0, 0]
    assert found[read.partitions[0]]
