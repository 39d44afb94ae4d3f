"""A figure reads the same wherever it stands, since one place writes it."""

import re
from pathlib import Path

import pytest
from comparisons import TINY, run_here
from rich.console import Console
from written_runs import config, write_run

import unalike
from unalike.cli.outcome import conclude, outcomes
from unalike.compare.analysis.claims import analyse
from unalike.compare.analysis.results import Results
from unalike.compare.execution import folder as comparison
from unalike.compare.presentation.tables import scores
from unalike.compare.specification.spec import loads
from unalike.report.html import results
from unalike.report.records import Reader
from unalike.run.folder.records import read_json

SOURCE = Path(unalike.__file__).parent


def by_head(table):
    """The texts of a table by the head of their column, row by row."""
    return [dict(zip(table.columns, (c.text for c in row), strict=True)) for row in table.rows]


def test_a_run_reads_the_same_in_the_terminal_and_in_its_report(tmp_path):
    folder = write_run(config(tmp_path / "a"))
    summary = read_json(folder / "summary.json")
    printed = [row for table in outcomes(summary) for row in by_head(table)]
    (table,) = results.results(Reader(folder).read()).by_partition["dirichlet"]
    shown = by_head(table)
    order = {row["test"]: row for row in printed[-len(shown) :]}
    names = {"clients' own test data": "local", "global test data": "global"}
    for row in shown[:2]:  # the selected round, which the terminal has last
        told = order[names[row["test"]]]
        assert {k: v for k, v in row.items() if k in told and k != "test"} == {
            k: v for k, v in told.items() if k != "test"
        }


def test_a_cell_of_a_comparison_reads_as_the_run_it_is(tmp_path):
    """One method, one seed: what was sent, the mean and the worst tenth."""
    text = f"{TINY}\n[compare]\nmethods = ['fedavg']\nseeds = 1"
    made = comparison.create(loads(text, "tiny"), tmp_path, text)
    run_here(made, tmp_path)
    (row,) = by_head(scores(made, analyse(made, Results(made, tmp_path).records), "dirichlet"))
    place = tmp_path / made.cells[0].folder
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    with console.file:
        conclude(console, place)
    printed = console.export_text()
    *_, selected = outcomes(read_json(place / "summary.json"))
    (local,) = (r for r in by_head(selected) if r["test"] == "local")
    for head in ("accuracy %", "worst 10 %", "Gini", "ECE"):
        assert row[head] == local[head]
    assert f"sent {row['sent']} in all" in printed
    assert f"{row['samples']} examples processed" in printed
    study = Reader(place).read()
    (used,) = by_head(results.ledger(study))
    assert (used["sent"], used["samples"]) == (row["sent"], row["samples"])


@pytest.mark.parametrize(
    ("pattern", "homes"),
    [
        ('"—"', {"tables/format.py", "tables/latex.py"}),  # one sign for nothing
        (r"\bkB\b", {"tables/format.py", "compare/specification/settings.py"}),  # which reads sizes
        (r'"worst 10', {"metrics/catalogue.py"}),
    ],
)
def test_one_place_decides(pattern, homes):
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(pattern, path.read_text(encoding="utf-8"))
    }
    assert found == homes
