"""What run and report say of groups of clients and of augmented rows."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from unalike.cli.outcome import conclude
from unalike.cli.view import View
from unalike.report.grouping import grouping
from unalike.report.html.figures import topology_figures
from unalike.report.html.grouped import grouped
from unalike.report.html.page import content
from unalike.report.html.results import ledger
from unalike.report.records import Place, Reader, Run, Study
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.folder.records import read_json

PHASES = {"phases": {"groups": 4, "emd": 0.66719, "emd_between": 1.0556}}
FILLED = {"unaltered": 0.864, "emd_before": 1.031, "emd_after": 0.796}
TOLD = "4 phases: mean EMD 0.667 from all data, 1.056 between two"


def run(groups: dict[str, Any], augmented: dict[str, Any] | None = None) -> Run:
    return Run(Path(), {}, data={"groups": groups, "augmented": augmented or {}})


def test_words() -> None:
    assert grouping({"groups": PHASES}) == [TOLD]
    assert grouping({"augmented": FILLED}) == [
        "augmentation leaves 86.4 % of a client's training rows unaltered; mean EMD from even "
        "labels 1.031 before, 0.796 after"
    ]
    one = {"clusters": {"groups": 1, "emd": 0.0, "emd_between": 0.0}}
    assert grouping({"groups": one}) == ["1 cluster: mean EMD 0.000 from all data"]
    assert grouping({}) == []


def test_methods_are_named_where_they_differ() -> None:
    same = [Place("a", "fedavg", "iid", 0, run(PHASES)), Place("b", "fedep", "iid", 0, run(PHASES))]
    apart = [
        Place("c", "fedavg", "skewed", 0, run({})),
        Place("d", "phase_shift", "skewed", 0, run(PHASES)),
        Place("e", "phase_shift", "skewed", 1, run({})),
    ]
    found = grouped(Study(Path(), "runs", "", "", [*same, *apart]))
    assert found == [("iid", TOLD), ("skewed, phase_shift", TOLD)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run with phases, augmentation and a clock, and all that was printed of it."""
    place = tmp_path_factory.mktemp("grouped") / "run"
    asked = {
        "rounds": 2,
        "model": "logistic",
        "partition": {"name": "dirichlet", "clients": 6, "alpha": 5.0},
        "method": {"name": "phase_shift", "phases": 3},
        "plus": [{"name": "fedaug", "target": 0.2}],
        "clock": {"kind": "simulated"},
        "run": {"folder": str(place)},
    }
    console = Console(width=200, record=True, file=StringIO())
    start(parse(asked), View(console))
    conclude(console, place)
    return place, console.export_text()


def test_a_run_says_it(told: tuple[Path, str]) -> None:
    place, text = told
    data = read_json(place / "skew.json")
    words = grouping(data)
    assert len(words) == 2
    assert all(line in text.splitlines() for line in words)
    assert data["groups"]["phases"]["groups"] == 3
    seconds = read_json(place / "summary.json")["clock"]
    assert f"{seconds:.1f} s by the simulated clock" in text


def test_a_report_says_it(told: tuple[Path, str]) -> None:
    place, _ = told
    study = Reader(place).read()
    shown = content(study).sections["data"]
    assert "Labels of groups of clients, and after augmentation" in shown
    assert "3 phases: mean EMD" in shown
    table = ledger(study)
    at = table.columns.index("simulated s")
    assert float(table.rows[0][at].text) == pytest.approx(
        read_json(place / "summary.json")["clock"], abs=0.05
    )


def test_astraea_says_what_its_augmentation_does(tmp_path: Path) -> None:
    """Its rows are altered in the second stage; the first only counts classes."""
    place = start(
        parse(
            {
                "rounds": 2,
                "model": "logistic",
                "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.3},
                "method": {"name": "astraea", "alpha": 1.0},
                "run": {"folder": str(tmp_path / "run")},
            }
        )
    )
    found = read_json(place / "skew.json")["augmented"]
    assert 0 < found["unaltered"] < 1
    assert len(found["each"]) == 6


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ({"name": "ring"}, ""),
        ({"name": "gossip"}, "These are the neighbours of round 1; later ones have others. "),
        (
            {"name": "random", "redraw": 2, "link_loss": 0.1},
            "These are the neighbours of round 1 and of these the links that are not lost; "
            "later ones have others. ",
        ),
        (
            {"name": "ring", "link_loss": 0.1},
            "These are the links that are not lost in round 1. ",
        ),
    ],
)
def test_a_picture_of_a_graph_that_changes_says_so(topology: dict[str, Any], words: str) -> None:
    counts = [[5, 1], [1, 5], [3, 3], [2, 4]]
    one = Run(Path(), {"topology": topology}, data={"clients": 4, "counts": counts})
    (found,) = topology_figures(Study(Path(), "run", "", "", [Place("a", "m", "p", 0, one)]))
    assert f". {words}The darker" in found.caption
