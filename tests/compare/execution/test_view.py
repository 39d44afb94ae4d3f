"""What a person sees while a comparison runs."""

import time
from io import StringIO

import pytest
from comparisons import tiny
from rich.console import Console

from unalike.cli.view import View
from unalike.compare.execution.view import LiveView, LogView, Progress, duration, for_console
from unalike.compare.execution.worker import Event

METRICS = {"local": {"accuracy": {"mean": 0.5}}}


def played(view, made):
    """One cell done, one failed, one on its way."""
    first, second, third = made.cells[:3]
    view.begin(made, {}, 2)
    for event, cell, value in (
        (Event("begin", first.id, 0, 4), first, None),
        (Event("round", first.id, 2, 4, METRICS), first, None),
        (Event("done", first.id), first, 0.875),
        (Event("begin", second.id, 0, 4), second, None),
        (Event("failed", second.id, text="out of memory."), second, None),
        (Event("round", third.id, 1, 4, METRICS), third, None),
    ):
        view.hear(event, cell, value)


def test_a_log_has_a_line_for_each_end():
    out = StringIO()
    view = for_console(Console(file=out, width=200))
    assert isinstance(view, LogView)
    made = tiny('methods = ["fedavg", "fedprox"]\nseeds = 2')
    played(view, made)
    view.end()
    lines = out.getvalue().splitlines()
    assert lines[0] == "4 cells, 0 done before, 4 to run on 2 processes"
    assert lines[1].startswith("1/4 fedavg--dirichlet--seed0: accuracy % 87.50, about")
    assert lines[2] == "cell fedprox--dirichlet--seed0 failed: out of memory."
    assert len(lines) == 3


def test_a_terminal_has_one_live_table():
    out = StringIO()
    console = Console(file=out, width=80, force_terminal=True)
    view = for_console(console)
    assert isinstance(view, LiveView)
    made = tiny('methods = ["fedavg", "fedprox"]\nseeds = 2')
    played(view, made)
    drawn = Console(file=StringIO(), width=80, record=True)
    drawn.print(view._drawn())
    view.end()
    text = drawn.export_text()
    assert "1 of 4 cells done, 1 failed, about" in text
    row = next(line for line in text.splitlines() if line.startswith("fedavg"))
    assert row.split() == ["fedavg", "1/2", "87.50", "50.00"]
    assert "cell fedprox--dirichlet--seed0 failed: out of memory." in out.getvalue()


HOSTILE = "'[/data/x.csv]' has shape [batch, 3], not [3, 4]."


@pytest.mark.parametrize("terminal", [False, True])
def test_an_error_is_shown_as_it_is(terminal):
    out = StringIO()
    view = for_console(Console(file=out, width=200, force_terminal=terminal))
    made = tiny('methods = ["fedavg"]')
    view.begin(made, {}, 1)
    cell = made.cells[0]
    view.hear(Event("failed", cell.id, text=HOSTILE), cell, None)
    view.end()
    assert HOSTILE in out.getvalue()


def test_a_run_names_refused_clients_and_notes_as_they_are():
    out = StringIO()
    view = View(Console(file=out, width=200))
    view.rounds, view.bar = 2, view.progress.add_task("fedavg", score="")
    record = {"round": 1, "metrics": None, "rejected": {"3": HOSTILE}, "skipped": "", "notes": []}
    view.round(record)
    view.round({**record, "rejected": {}, "skipped": HOSTILE, "notes": [HOSTILE]})
    assert out.getvalue().count(HOSTILE) == 3


def test_the_time_left_counts_only_this_session():
    made = tiny('methods = ["fedavg"]\nseeds = 4')
    ids = [c.id for c in made.cells]
    progress = Progress(made, {ids[0]: 0.5, ids[1]: 0.5})
    assert progress.remaining == ""
    progress.begun = time.monotonic() - 10  # one cell in ten seconds, one to go
    progress.hear(Event("done", ids[2]), made.cells[2], 0.5)
    assert progress.remaining == "10 s"
    assert progress.mean("fedavg") == (3, 4, 0.5, None)


def test_durations():
    assert [duration(x) for x in (5, 120, 7200)] == ["5 s", "2 min", "2.0 h"]
