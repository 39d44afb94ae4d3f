"""The figures: what they draw, that they render, and that they refuse what they cannot draw."""

import numpy as np
import pytest
from chart_rows import tables

from unalike.errors import ConfigError, DataError
from unalike.report.plots import client_strip, learning_curves, partition_plot, save, spread_plot
from unalike.report.plots.methods import colours, dashes

CHARTS = {
    "one client": lambda: partition_plot([[3, 0, 1]]),
    "bubbles": lambda: partition_plot(np.eye(10) * 5, emd=1.8),
    "heat map": lambda: partition_plot(np.eye(10)[np.arange(60) % 10] * 5),
    "averaged heat map": lambda: partition_plot(np.eye(10)[np.arange(400) % 10] * 5),
    "spread": lambda: spread_plot([0.1, 0.5, 0.5, 1.2], [3, 4, 10, 100]),
    "equal clients": lambda: spread_plot([0.0, 0.0], [5, 5]),
    "curves": lambda: learning_curves(records(), target=0.4, title="Curves"),
    "one round": lambda: learning_curves([{"round": 1, "method": "a", "accuracy": 0.5}]),
    "dots": lambda: client_strip({"a": [0.1, 0.2, np.nan], "b": [0.5, 0.5, 0.5]}),
    "bars": lambda: client_strip(
        {"a": np.linspace(0, 1, 500), "it's [b]": np.linspace(0, 0.5, 500)}
    ),
}


def records():
    return [
        {"round": r, "method": m, "seed": s, "accuracy": 0.1 * r + 0.01 * s, "loss": None}
        for m in ("fedavg", "ditto")
        for s in (0, 1, 2)
        for r in range(6)
    ]


@pytest.mark.parametrize("name", CHARTS)
def test_renders(name, tmp_path):
    svg = save(CHARTS[name](), tmp_path / "new folder" / "figure.svg").read_text()
    assert svg.startswith("<svg")
    assert "NaN" not in svg


def test_png_and_pdf(tmp_path):
    chart = CHARTS["bubbles"]()
    assert save(chart, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert save(chart, str(tmp_path / "a.pdf")).read_bytes().startswith(b"%PDF")


def test_of_very_many_classes_the_rarest_share_a_row():
    counts = np.ones((3, 250))
    counts[:, [7, 240]] = 5
    marks = tables(partition_plot(counts))[0]
    labels = {row["label"] for row in marks}
    assert len(labels) == 100
    assert {"7", "240", "151 rarer classes"} <= labels
    assert sum(row["examples"] for row in marks) == counts.sum()


def test_a_coarse_heat_map_has_fewer_cells():
    counts = np.ones((300, 60))
    cells = [len(tables(partition_plot(counts, coarse=coarse))[0]) for coarse in (False, True)]
    assert cells == [150 * 60, 50 * 33]


def test_html_needs_nothing_from_elsewhere(tmp_path):
    html = save(CHARTS["bubbles"](), tmp_path / "a.html").read_text()
    assert "<script src=" not in html
    assert len(html) > 200_000  # the libraries are inside


def test_unknown_suffix_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"'a.jpg': the suffix must be one of .svg, .png"):
        save(CHARTS["bubbles"](), tmp_path / "a.jpg")


def test_title_and_facts():
    title = partition_plot(np.full((3, 4), 500), title="Mine", emd=0.25).to_dict()["title"]
    assert title == {"text": "Mine", "subtitle": "3 clients · 6,000 examples · EMD 0.250"}


def test_few_clients_are_called_by_their_names():
    drawn = partition_plot([[2, 0], [1, 7]], client_names=["north", "south, east", "held out"])
    rows = next(t for t in tables(drawn) if "examples" in t[0])
    assert [row["client"] for row in rows] == ["north", "south, east", "south, east"]
    assert '["north", "south, east"][datum.value]' in str(drawn.to_dict())


def test_bubbles_hold_the_counts():
    rows = tables(partition_plot([[2, 0], [1, 7]], ["cat", "dog"]))[0]
    assert rows == [
        {"column": 0, "label": "cat", "examples": 2},
        {"column": 1, "label": "cat", "examples": 1},
        {"column": 1, "label": "dog", "examples": 7},
    ]


def test_many_clients_are_sorted_by_their_largest_class():
    rng = np.random.default_rng(0)
    counts = rng.permutation(np.eye(3)[np.arange(90) % 3]) * 10 + 1
    shares = tables(partition_plot(counts))[0]
    largest = [max(shares[3 * i : 3 * i + 3], key=lambda r: r["share"])["label"] for i in range(90)]
    assert largest == ["0"] * 30 + ["1"] * 30 + ["2"] * 30


def test_very_many_clients_are_averaged_without_loss():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 50, (1000, 4))
    cells, sizes = tables(partition_plot(counts))
    assert len(sizes) == 150
    by_column = np.array([r["share"] for r in cells]).reshape(150, 4).sum(1)
    assert by_column == pytest.approx(1, abs=1e-5)  # drawn numbers have six digits
    members = np.diff(np.unique(np.linspace(0, 1000, 151).round()))
    assert np.dot([r["size"] for r in sizes], members) == pytest.approx(counts.sum())


def test_a_client_without_examples_is_drawn_empty():
    counts = np.vstack([np.zeros(3), np.ones((50, 3))])
    assert all(np.isfinite(r["share"]) for r in tables(partition_plot(counts))[0])


def test_histogram_counts_every_client():
    bars = [t for t in tables(spread_plot(np.linspace(0, 1, 5000), np.ones(5000))) if "low" in t[0]]
    assert [sum(r["clients"] for r in t) for t in bars] == [5000, 5000]


def test_the_spread_names_the_weighted_mean():
    subtitle = spread_plot([0.0, 1.0], [1, 3]).to_dict()["title"]["subtitle"]
    assert subtitle == "2 clients · size-weighted mean EMD 0.750 · 2 examples on average"


def test_repetitions_become_a_mean_and_a_band():
    rows = tables(learning_curves(records()))[0]
    assert len(rows) == 12
    assert rows[1] == pytest.approx(
        {"method": "fedavg", "round": 1, "mean": 0.11, "low": 0.1, "high": 0.12}
    )


def test_values_that_are_missing_or_not_finite_are_skipped():
    good = {"round": 1, "method": "a", "accuracy": 0.5}
    bad = [{"round": r, "method": "a", "accuracy": v} for r, v in ((2, np.nan), (3, None))]
    rows = tables(learning_curves([good, *bad, {"round": 4, "method": "a"}]))[0]
    assert [r["round"] for r in rows] == [1]


def test_a_strip_holds_every_client_and_the_summaries():
    values = np.linspace(0, 1, 20)
    dots, marks = tables(client_strip({"a": values, "b": values / 2}))
    drawn = sorted(r["value"] for r in dots if r["method"] == "a")
    assert drawn == pytest.approx(values, abs=1e-5)
    summaries = [0.5, 0.25, 0.5 / 19, 0.25 / 19]
    assert [r["value"] for r in marks] == pytest.approx(summaries, abs=1e-6)


def test_a_dot_tells_its_test_rows():
    values, sizes = (
        {"a": [0.5, np.nan, 0.1], "b": [0.2, 0.9, 0.3]},
        {"a": [3, 5, 7], "b": [3, 5, 7]},
    )
    dots = tables(client_strip(values, sizes=sizes))[0]
    told = {(r["method"], round(r["value"], 6)): r["rows"] for r in dots}
    assert told == {("a", 0.5): 3, ("a", 0.1): 7, ("b", 0.2): 3, ("b", 0.9): 5, ("b", 0.3): 7}


def test_dots_of_one_value_stand_apart_within_their_row():
    dots = tables(client_strip({"a": np.full(200, 0.5), "b": np.full(200, 0.5)}))[0]
    heights = np.array([r["y"] for r in dots if r["method"] == "b"])
    assert len(np.unique(heights.round(9))) == 200
    assert np.abs(heights - 1).max() < 0.3


def test_of_a_loss_the_worst_are_the_largest():
    marks = tables(client_strip({"a": np.arange(20.0)}, "loss"))[1]
    assert marks[1]["value"] == 18.5


def test_twenty_eight_methods_differ_by_colour_or_dash():
    looks = set(zip(colours(28), map(tuple, dashes(28)), strict=True))
    assert len(looks) == 28


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: partition_plot([1, 2]), r"counts must be a table .* got shape \(2,\)"),
        (lambda: partition_plot([[1, -2]]), "numbers >= 0"),
        (lambda: partition_plot([[1, np.nan]]), "numbers >= 0"),
        (lambda: partition_plot([[1, 2]], ["a"]), "class_names must hold 2 different names, got 1"),
        (lambda: partition_plot([[1, 2]], ["a", "a"]), "2 different names, got 1"),
        (lambda: spread_plot([0.1], [1, 2]), "vectors over the same clients"),
        (lambda: spread_plot([], []), "vectors over the same clients"),
        (lambda: spread_plot([np.nan], [1]), "must be finite"),
        (lambda: learning_curves([{"round": 1}]), "record 0 must have 'round' and 'method'"),
        (lambda: learning_curves(records(), "acuracy"), "no record .* 'acuracy'.* accuracy, loss"),
        (lambda: learning_curves([]), "no record has a finite 'accuracy'.* none"),
        (lambda: client_strip({}), "at least one method"),
        (lambda: client_strip({"a": [np.nan]}), "'a' must give a vector with a value"),
    ],
)
def test_what_cannot_be_drawn_is_named(make, message):
    with pytest.raises(DataError, match=message):
        make()
