"""Tables for the terminal and as Markdown show the same cells."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from unalike.errors import DataError
from unalike.report.tables import (
    SKEW_MEANINGS,
    comparison_markdown,
    comparison_table,
    skew_markdown,
    skew_table,
)

ROWS = [
    {"method": "FedAvg [red]", "accuracy": (0.8123, 0.004), "worst10": 0.5, "bytes": 123456789},
    {"method": "a|b", "accuracy": (0.85, math.nan), "worst10": math.nan, "rounds": 12},
]
BEST = {"accuracy": "max", "bytes": "min", "unknown": "max"}


def printed(table):
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    console.print(table)
    return console.file.getvalue()


def test_markdown():
    assert comparison_markdown(ROWS, BEST).splitlines() == [
        "| method | accuracy | worst10 | bytes | rounds |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| FedAvg [red] | 0.8123 ± 0.0040 | 0.5000 | **123,456,789** | — |",
        "| a\\|b | **0.8500** | — | — | 12 |",
    ]


def test_the_terminal_shows_the_same_cells():
    text = printed(comparison_table(ROWS, "Title", BEST))
    for cell in ("Title", "FedAvg [red]", "0.8123 ± 0.0040", "123,456,789", "a|b", "0.8500", "12"):
        assert cell in text


def test_the_best_is_bold_and_equals_share_it():
    rows = [{"m": "a", "loss": 2.0}, {"m": "b", "loss": 1.0}, {"m": "c", "loss": 1.0}]
    lines = comparison_markdown(rows, {"loss": "min"}).splitlines()[2:]
    assert ["**" in line for line in lines] == [False, True, True]
    table = comparison_table(rows, best={"loss": "min"})
    assert [str(cell.style) for cell in table.columns[1].cells] == ["", "bold", "bold"]


def test_without_goals_nothing_is_bold():
    assert "**" not in comparison_markdown(ROWS)


def test_large_and_small_numbers():
    rows = [{"x": 12345.678}, {"x": -0.00001}, {"x": 7}, {"x": None}]
    cells = [line.strip("| ") for line in comparison_markdown(rows).splitlines()[2:]]
    assert cells == ["12,346", "-1.0e-05", "7", "—"]


def test_no_rows_are_refused():
    with pytest.raises(DataError, match="at least one row"):
        comparison_table([])


def test_every_measure_of_skew_is_explained():
    from unalike.federation.skew import measure

    skew = measure(np.array([[10, 0, 0], [5, 5, 10], [0, 30, 20]])).as_dict()
    assert set(skew) == set(SKEW_MEANINGS)
    markdown = skew_markdown(skew)
    assert "| emd | 0.5312 | L1 distance from the pooled labels, by size |" in markdown
    assert "| clients | 3 |" in markdown
    text = printed(skew_table(skew))
    assert all(meaning in text for meaning in SKEW_MEANINGS.values())


def test_a_measure_that_is_new_is_shown_without_meaning():
    assert "| novel | 0.5000 |  |" in skew_markdown({"novel": 0.5})
