"""Tables for people, papers and programs."""

import csv
import json
import re
from io import StringIO

import polars as pl
import pytest
from comparisons import asked, records
from rich.console import Console

from unalike.compare.analysis.claims import Analysis, analyse
from unalike.compare.presentation import frames, wording
from unalike.compare.presentation.tables import pivot, scores, tables
from unalike.compare.specification.spec import Comparison, comparison
from unalike.tables.format import number
from unalike.tables.latex import latex
from unalike.tables.markdown import markdown
from unalike.tables.model import Table
from unalike.tables.terminal import terminal

VALUES = {
    "FedAvg": [0.80, 0.81, 0.79, 0.80, 0.82],
    "Fed_Best": [0.90, 0.92, 0.90, 0.91, 0.92],
    "Other": [0.80, 0.80, 0.80, 0.81, 0.82],
}
LEDGERS = {"Fed_Best": {"bytes": 2500}}


def example(**compare: object) -> tuple[Comparison, Analysis]:
    made = asked(VALUES, title="T", **compare)
    return made, analyse(made, records(made, VALUES, LEDGERS))


def drawn(some: list[Table], width: int) -> list[str]:
    console = Console(width=width, record=True, file=StringIO())
    console.print(terminal(some, width))
    return console.export_text().splitlines()


def test_scores_hold_the_rows_of_the_papers():
    table = scores(*example(), "dirichlet")
    assert table.columns == [
        "method",
        "accuracy %",
        "worst 10 %",
        "Gini",
        "ECE",
        "sent",
        "samples",
        "rounds",
    ]
    texts = [[c.shown for c in row] for row in table.rows]
    assert texts[0] == ["FedAvg", "80.40 ± 1.14", "40.00", "0.100", "0.050", "1 kB", "100", "5"]
    assert texts[1][:2] == ["Fed_Best †", "91.00 ± 1.00*"]
    assert [row[1].bold for row in table.rows] == [False, True, False]
    assert "† Fed_Best used 2.5 times the bytes of FedAvg." in table.notes


def test_the_best_round_on_test_rows_is_a_column_of_its_own():
    """Beside ours, marked, and without a word in any test: all else stays as it is."""
    plain, found = example()
    made = asked(VALUES, title="T", best_on_test=True)
    some = records(made, VALUES, LEDGERS)
    for record in some:
        values = [0.1, record["value"] + 0.02, None]
        record["curve"] = {"round": [1, 2, 3], "value": values, "bytes": [1, 2, 3]}
    table, ours = scores(made, analyse(made, some), "dirichlet"), scores(plain, found, "dirichlet")
    assert table.columns[1:3] == ["accuracy %", "best on test §"]
    assert [row[2].shown for row in table.rows] == ["82.40", "93.00", "82.60"]
    assert [[*row[:2], *row[3:]] for row in table.rows] == ours.rows
    assert any(note.startswith("§ Best on test: ") and "no verdict" in note for note in table.notes)
    loss = asked(VALUES, metric="loss", best_on_test=True)
    some = records(loss, VALUES)
    for record in some:
        values = [record["value"] + 1, record["value"]]
        record["curve"] = {"round": [1, 2], "value": values, "bytes": [1, 2]}
    lines = analyse(loss, some).lines
    assert lines[0].beside["best_on_test"] == pytest.approx(0.804)


def test_the_best_point_on_test_rows_is_that_column_where_points_were_tested():
    """The point between two models that each client's test rows would choose, beside ours."""
    made = comparison(
        {
            "evaluation": {"line": 11},
            "compare": {
                "methods": [{"name": "fedavg", "label": m} for m in VALUES],
                "seeds": 5,
                "best_on_test": True,
            },
        }
    )
    some = records(made, VALUES)
    for record in some:
        best = {"accuracy": {"mean": record["value"] + 0.01}}
        record["metrics"]["oracle"] = best
        record["curve"] = {"round": [1], "value": [1.0], "bytes": [1]}
    found = analyse(made, some)
    table = scores(made, found, "dirichlet")
    assert table.columns[1:3] == ["accuracy %", "best on test §"]
    assert [row[2].shown for row in table.rows] == ["81.40", "92.00", "81.60"]
    [note] = [note for note in table.notes if note.startswith("§ Best on test: ")]
    assert "each client's best point" in note
    assert "no verdict" in note
    plain, ours = example()
    assert [line.versus for line in found.lines] == [line.versus for line in ours.lines]


def test_pivot_is_methods_by_conditions_with_a_tally():
    made, found = example(partitions=["iid", "dirichlet"])
    table = pivot(made, found)
    assert table.columns == ["method", "iid", "dirichlet", "all conditions", "win/equal/open/loss"]
    assert [row[-1].text for row in table.rows] == ["—", "2/0/0/0", "0/0/2/0"]
    assert [c.shown for c in table.rows[1]][3] == "91.00 ± 1.00*"
    assert tables(made, found)[1].title.startswith("T: all conditions: accuracy % against FedAvg")


def test_ranks_are_a_column_from_five_conditions_on():
    many = [{"name": "dirichlet", "alpha": a} for a in (0.1, 0.5, 1.0, 2.0, 5.0)]
    table = pivot(*example(partitions=many))
    assert table.columns[-2] == "mean rank"
    assert [row[-2].text for row in table.rows] == ["3.00", "1.00", "2.00"]
    # q = 2.343 of three methods, times sqrt(3 x 4 / (6 x 5))
    assert "differ if their ranks are 1.48 apart (Nemenyi)" in table.notes[-1]


def test_every_condition_says_its_verdict_though_another_says_the_same():
    made = asked(VALUES, partitions=[{"alpha": a, "label": f"a{a:g}"} for a in (0.1, 1.0)])
    lines = " ".join(drawn(tables(made, analyse(made, records(made, VALUES))), 200))
    for condition in made.conditions:
        assert f"On {condition}: Fed_Best is best" in lines


def test_a_verdict_says_who_differs_from_the_baseline():
    close = {"FedAvg": [0.5, 0.51, 0.52], "P": [0.8, 0.81, 0.825], "Q": [0.8, 0.812, 0.82]}
    made = asked(close, baseline="FedAvg", rows="these", seeds=3)
    found = analyse(made, records(made, close))
    assert wording.told(found.verdicts[0], made, found).endswith(" Against FedAvg, better: P, Q.")
    made, found = example()  # one is best, and that says it is better than the baseline
    assert wording.told(found.verdicts[0], made, found) == wording.sentence(found.verdicts[0])


def test_speeds_are_ratios_to_the_baseline():
    made = asked(VALUES)
    rows = records(made, VALUES)
    steps = {"FedAvg": 10, "Fed_Best": 5, "Other": 40}
    for r in rows:
        when = steps[r["label"]] + r["seed"] % 3
        value = [0.8 * (t >= when) for t in range(1, 31)]
        r["curve"] = {"round": list(range(1, 31)), "value": value, "bytes": list(range(9, 309, 10))}
    table = tables(made, analyse(made, rows))[2]
    assert table.title == (
        "dirichlet: rounds and bytes to 95 % of FedAvg's best accuracy under the same seed"
    )
    texts = [[c.shown for c in row] for row in table.rows]
    assert texts[0][1:3] == ["11", "—"]
    assert re.match(r"0\.5\d \[0\.\d\d, 0\.\d\d]", texts[1][2])
    assert (texts[1][4], texts[1][8]) == ("win", "win")
    assert texts[2][1:3] == ["— (0/5)", "—"]
    assert texts[2][4] == "loss"
    for r in rows:  # rounds of the second method take four times as long
        pace = 2.0 if r["label"] == "Fed_Best" else 0.5
        r["curve"]["seconds"] = [pace * t for t in range(1, 31)]
    table = tables(made, analyse(made, rows))[2]
    assert table.title.startswith("dirichlet: rounds, bytes and seconds to 95 %")
    assert table.columns[9:] == ["seconds", "ratio of seconds", "p of seconds", "result in seconds"]
    slow = [c.shown for c in table.rows[1]]
    assert slow[9] == "11.6"  # 5.8 rounds of two seconds
    assert re.match(r"2\.\d\d \[", slow[10])
    assert (slow[4], slow[12]) == ("win", "loss")


def test_differences_carry_interval_correction_and_effect():
    values = {m: VALUES[m] for m in ("FedAvg", "Fed_Best")}
    made = asked(values, rows="these")
    table = tables(made, analyse(made, records(made, values)))[1]
    row = [c.shown for c in table.rows[1]]
    # d = 10, 11, 11, 11, 10: s = 0.5477, t_{0.975, 4} s / sqrt(5) = 0.680;
    # noncentral t with four degrees: 1.6814 s is found in 80 of 100 cases
    assert row[2:] == ["+10.60 [9.92, 11.28]", "<0.001", "0.92", "win"]
    assert [c.shown for c in table.rows[0]][2:] == ["—"] * 4


def test_one_seed_shows_neither_spread_nor_test():
    made = asked(("a", "b"), seeds=1)
    found = analyse(made, records(made, {"a": [0.5], "b": [0.25]}))
    first, second = tables(made, found)
    assert [c.shown for c in first.rows[1]][1] == "25.00"
    assert [c.shown for c in second.rows[1]][1:] == ["—", "-25.00", "—", "—", "—"]
    assert any("One seed" in note for note in first.notes)


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_cut_or_too_wide(width):
    many = [{"name": "dirichlet", "alpha": a} for a in (0.1, 0.5, 1.0, 2.0, 5.0)]
    made, found = example(partitions=many)
    lines = drawn(tables(made, found), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    for condition in made.conditions:
        assert condition in text
    assert len([line for line in lines if re.match(r"Fed_Best †.*91\.00 ± 1\.00\*", line)]) >= 6


@pytest.mark.parametrize("length", [9, 14, 20, 30, 60])
def test_long_labels_are_not_cut(length):
    """Rich shortens what it takes for wrappable before it wraps a column's name."""
    label = ("LG-FedAvg anew, head shared " * 3)[:length].strip()
    values = {"FedAvg": VALUES["FedAvg"], label: VALUES["Other"]}
    made = asked(values)
    rows = records(made, values, {label: {"bytes": 20_900_000_000}})
    lines = drawn(tables(made, analyse(made, rows)), 80)
    assert max(map(len, lines)) <= 80
    assert "…" not in "\n".join(lines)
    assert sum(line.startswith(label[:35]) for line in lines) >= 2


def test_a_table_too_wide_is_continued_with_the_names_repeated():
    many = [{"name": "dirichlet", "alpha": a} for a in (0.1, 0.5, 1.0, 2.0, 5.0)]
    made, found = example(partitions=many)
    lines = drawn([pivot(made, found)], 80)
    assert sum(line.startswith("method") for line in lines) == 2
    assert "T (continued)" in [line.strip() for line in lines]


def test_markdown_is_bold_only_where_proven_and_escaped():
    text = markdown(tables(*example()), "Why?")
    assert text.startswith("Why?\n\n**T: dirichlet**\n\n| method | accuracy % |")
    assert "| Fed\\_Best † | **91.00 ± 1.00\\*** |" in text
    assert text.count("**91.00") == 1
    assert "**80" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows[:5]} == {9}


def test_latex_is_balanced_and_escaped():
    text = latex(tables(*example()))
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 2
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2
    assert r"Fed\_Best $^\dagger$ & \textbf{91.00 $\pm$ 1.00$^*$} &" in text
    assert r"accuracy \%" in text
    bare = text.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    for line in re.findall(r"^    (.*) \\\\$", text, re.M):
        assert line.count("&") in (7, 5)
    assert not re.search(r"(?<!\\)[%_#]", text.partition("\n")[2])


def test_frames_hold_every_cell_and_every_line(tmp_path):
    made, found = example()
    rows = records(made, VALUES, LEDGERS)
    frames.save(tmp_path, made, rows, found)
    for name, expected in (("cells", 15), ("summary", 3)):
        parquet = pl.read_parquet(tmp_path / f"{name}.parquet")
        with (tmp_path / f"{name}.csv").open() as f:
            plain = list(csv.DictReader(f))
        assert len(parquet) == len(plain) == expected
        assert list(plain[0]) == parquet.columns
    cells = pl.read_parquet(tmp_path / "cells.parquet")
    assert cells["value"].to_list()[:3] == [0.80, 0.90, 0.80]
    assert cells["local_accuracy_worst10"].null_count() == 0
    summary = pl.read_parquet(tmp_path / "summary.parquet")
    assert summary["best"].to_list() == [False, True, False]
    assert summary["difference_p"][0] is None


def test_frames_take_cells_of_unlike_metrics():
    made, _ = example()
    rows = records(made, VALUES)
    rows[3]["metrics"]["global"] = {"accuracy": {"mean": 0.5}}
    found = frames.cells(rows)
    j = found.columns.index("global_accuracy_mean")
    assert [row[j].value for row in found.rows].count(None) == 14


def test_lines_are_plain_data():
    made, found = example()
    assert json.loads(json.dumps(frames.statistics(made, found)))["lines"][1]["outcome"] == "win"


def test_footnotes_are_shared_and_name_conditions_only_if_they_must():
    made = asked(("a", "b", "c"), partitions=["iid", "dirichlet"], seeds=2)
    rows = records(made, {m: [0.5, 0.6] for m in "abc"}, {m: {"bytes": 2000} for m in "bc"})
    assert pivot(made, analyse(made, rows)).notes[-1] == "† b, c used 2 times the bytes of a."
    for row in rows:
        if row["label"] == "c" and row["condition"] == "iid":
            row["ledger"]["bytes"] = 3000
    assert pivot(made, analyse(made, rows)).notes[-2:] == [
        "† b used 2 times the bytes of a.",
        "† c used 3 times the bytes of a (iid); 2 times the bytes of a (dirichlet).",
    ]


def test_missing_seeds_stand_beside_the_number():
    values = {**VALUES, "Other": VALUES["Other"][:3]}
    made = asked(values)
    found = analyse(made, records(made, values))
    rows = scores(made, found, "dirichlet").rows
    assert rows[2][1].shown == "80.00 ± 0.00 (n = 3)"
    assert not any(row[1].bold for row in rows)


def test_without_a_baseline_there_are_no_differences():
    made = asked(VALUES, baseline="Other")
    found = analyse(made, records(made, {m: VALUES[m] for m in ("FedAvg", "Fed_Best")}))
    assert [g.columns[1] for g in tables(made, found)] == ["accuracy %"]


def test_equal_rounds_are_said_only_of_equal_rounds():
    made, found = example()
    assert "in the round selected on validation data, at equal rounds." in " ".join(
        scores(made, found, "dirichlet").notes
    )
    methods = ["fedavg", {"name": "fedavg", "label": "short", "set": {"rounds": 9}}]
    own = comparison({"compare": {"methods": methods}})
    rows = records(own, {"fedavg": [0.5, 0.6], "short": [0.5, 0.7]})
    notes = " ".join(scores(own, analyse(own, rows), "dirichlet").notes)
    assert "methods set their own rounds" in notes
    assert "equal" not in notes


def test_intervals_of_shares_end_at_all_of_them():
    values = {"a": [0.90, 0.99, 0.98], "b": [0.01, 0.02, 0.20]}
    made = asked(values, seeds=3, rows="these")
    rows = tables(made, analyse(made, records(made, values)))[1].rows
    assert [row[1].shown for row in rows] == ["[83.41, 100.00]", "[0.00, 34.23]"]
    assert number(1.08, "accuracy") == "108.00"  # differences are not cut


def test_a_budget_left_over_has_a_mark():
    made = asked(VALUES, budget="bytes")
    rows = records(made, VALUES, {"Other": {"bytes": 0}})
    table = scores(made, analyse(made, rows), "dirichlet")
    assert table.rows[2][0].shown == "Other ‡"
    assert table.notes[-1] == "‡ Other used only 0 % of the budget of bytes."


def test_a_global_test_has_no_spread_over_clients():
    made, found = example(section="global")
    row = [c.shown for c in scores(made, found, "dirichlet").rows[0]]
    assert row[2:4] == ["—", "—"]
