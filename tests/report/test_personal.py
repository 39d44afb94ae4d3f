"""The pictures of personal models: what they draw, from real records and from plain numbers."""

from pathlib import Path

import pytest
from chart_rows import tables

from unalike.errors import DataError
from unalike.report import personal
from unalike.report.html.personal import personal_figures
from unalike.report.plots import cross_plot, landscape_plot, line_plot, save, steps_plot
from unalike.report.records import Reader
from unalike.run.configuration.config import parse
from unalike.run.execute import start

ROWS = [
    {"method": m, "at": at, "value": 0.5 + at * up}
    for m, up in (("a", 0.4), ("a", 0.2), ("b", -0.1))
    for at in (0.0, 0.5, 1.0)
]


def test_a_line_has_the_mean_of_repetitions_and_says_its_best_place(tmp_path: Path) -> None:
    chart = line_plot(ROWS)
    drawn = {(r["method"], r["at"]): r for r in tables(chart)[0]}
    assert drawn["a", 1.0]["mean"] == pytest.approx(0.8)
    assert (drawn["a", 1.0]["low"], drawn["a", 1.0]["high"]) == pytest.approx((0.7, 0.9))
    words = chart.to_dict()["description"]
    assert "a from 50.00 % to 80.00 %, best 80.00 % at 1" in words
    assert "b from 50.00 % to 40.00 %, best 50.00 % at 0" in words
    for i, made in enumerate((chart, steps_plot(ROWS), cross_plot([[1, 0.5], [0.2, 0.9]], "xy"))):
        assert save(made, tmp_path / f"{i}.svg").read_text().startswith("<svg")
    plane = [[1.0, 2.0, 3.0], [2.0, 0.5, 2.0], [3.0, 2.0, 1.0]]
    assert "0.500 at the model" in landscape_plot(plane, [-1, 0, 1]).to_dict()["description"]


def test_a_square_says_own_and_others() -> None:
    words = cross_plot([[1.0, 0.5], [0.2, 0.9]], ["x", "y"]).to_dict()["description"]
    assert "95.00 % on their own" in words
    assert "35.00 % on the others'" in words


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(DataError):
        line_plot([{"method": "a", "at": 0.0, "value": None}])
    with pytest.raises(DataError):
        cross_plot([[1.0, 0.5]], ["x", "y"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "run"
    asked = {"line": 3, "new_client_steps": [2], "cross": 3, "landscape": 3, "every": 2}
    raw = {
        "rounds": 3,
        "data": {"name": "digits"},
        "partition": {"name": "shards", "clients": 5},
        "split": {"new_clients": 1},
        "method": {"name": "superfed_lm", "start": 0.0},
        "evaluation": asked,
        "run": {"folder": str(place)},
    }
    return start(parse(raw))


def test_a_run_has_all_four(folder: Path) -> None:
    study = Reader(folder).read()
    partition = study.partitions[0]
    made = personal_figures(study, partition, 0)
    assert [f.id for f in made] == ["line-0", "steps-0", "cross-0-0", "landscape-0-0"]
    assert "Only a simulation" in made[2].caption
    assert [r["at"] for r in personal.line(study, partition)] == [0.0, 0.5, 1.0]
    assert [r["at"] for r in personal.steps(study, partition)] == [0, 2]


def test_what_was_not_asked_for_is_not_drawn(folder: Path, tmp_path: Path) -> None:
    raw = {
        "rounds": 1,
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 3},
        "run": {"folder": str(tmp_path / "plain")},
    }
    study = Reader(start(parse(raw))).read()
    assert personal_figures(study, study.partitions[0], 0) == []
