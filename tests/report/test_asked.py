"""What the report says of skew that was asked for."""

from pathlib import Path

from unalike.report.html.asked import asked
from unalike.report.records import Place, Run, Study


def run(got: float, unused: int = 0) -> Run:
    goals = [{"what": "EMD", "asked": 1.4, "got": got}]
    return Run(Path(), {"method": {"name": "fedavg"}}, data={"asked": goals, "unused": unused})


def study(*places: Place) -> Study:
    return Study(Path(), "runs", "", "", list(places))


def test_one_run_is_told_as_it_is() -> None:
    one = study(Place("a", "fedavg", "skewed", 0, run(1.3951, 1200)))
    assert asked(one) == [("skewed", "EMD: asked for 1.400, got 1.395; 1,200 examples unused")]


def test_seeds_are_averaged_and_methods_are_not() -> None:
    both = study(
        Place("a", "fedavg", "skewed", 0, run(1.3)),
        Place("b", "fedprox", "skewed", 0, run(1.3)),
        Place("c", "fedavg", "skewed", 1, run(1.5)),
        Place("d", "fedavg", "iid", 0, Run(Path(), {}, data={"asked": [], "unused": 0})),
    )
    words = "EMD: asked for 1.400, got 1.400 on average over 2 seeds (1.300 to 1.500)"
    assert asked(both) == [("skewed", words)]
