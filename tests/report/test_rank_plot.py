"""Mean ranks and what is not distinguishable, drawn."""

import numpy as np
import pytest
from chart_rows import tables

from unalike.compare.statistics.ranks import Ranks
from unalike.errors import DataError
from unalike.report.html.figures import rank_figures
from unalike.report.plots import rank_plot, save

MEANS = {"a": 3.0, "it's [b]": 1.2, "c": 1.8}


def test_points_are_ranks_and_bars_are_groups(tmp_path):
    chart = rank_plot(MEANS, [["it's [b]", "c"]], 1.5)
    bars, points = sorted(tables(chart), key=lambda rows: "method" in rows[0])
    assert [(row["method"], row["rank"]) for row in points] == [
        ("it's [b]", 1.2),
        ("c", 1.8),
        ("a", 3.0),
    ]
    assert [(row["what"], row["low"], row["high"]) for row in bars] == [
        ("critical difference", 1.0, 2.5),
        ("not distinguishable", 1.2, 1.8),
    ]
    assert save(chart, tmp_path / "ranks.svg").read_text().startswith("<svg")
    assert "Not distinguishable: it's [b], c." in chart.to_dict()["description"]


def test_without_ranks_there_is_no_picture():
    assert rank_figures(["a", "b"], None) == []
    (figure,) = rank_figures(["a", "b"], Ranks(np.array([1.1, 1.9]), 0.01, 0.5))
    assert figure.title == "Mean ranks over all partitions"
    assert "Ranks 0.50 apart differ. Not distinguishable: none." in figure.alt


def test_one_method_has_no_rank():
    with pytest.raises(DataError, match="at least two methods"):
        rank_plot({"a": 1.0}, [], 1.0)
