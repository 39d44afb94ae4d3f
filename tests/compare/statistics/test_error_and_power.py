"""Error and power of whole comparisons, simulated: a short walk through the benchmark's worlds."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.reuse import Reuse, resplit

PLACE = Path(__file__).parents[3] / "benchmarks" / "false_alarms.py"
SPEC = importlib.util.spec_from_file_location("false_alarms", PLACE)
worlds = importlib.util.module_from_spec(SPEC)
sys.path.insert(0, str(PLACE.parent))  # its drawn worlds lie beside it
SPEC.loader.exec_module(worlds)


def bound(times, level=0.05):
    """What a test at this level exceeds once in a thousand such simulations."""
    return 100 * (level + 3.1 * np.sqrt(level * (1 - level) / times))


@pytest.mark.parametrize(("conditions", "seeds"), [(1, 5), (1, 20), (9, 5)])
def test_equal_methods_are_rarely_told_apart(conditions, seeds):
    x = worlds.alike(np.random.default_rng(0), 200, conditions, 9, seeds)
    assert worlds.alarms(x) <= bound(200)


@pytest.mark.parametrize("name", ["by a factor of 1.8", "in coarse steps", "skewed: exponential"])
def test_not_even_if_they_vary_unlike(name):
    x = worlds.INDEPENDENT[name](np.random.default_rng(1), 300, 1, 9, 5)
    assert worlds.alarms(x) <= bound(300)


@pytest.mark.parametrize("draw", [worlds.fixed_rules, worlds.trained_rules])
def test_twenty_splits_of_one_dataset_are_not_twenty_datasets(draw):
    x = draw(np.random.default_rng(2), 150, 1, 9, 20)
    assert worlds.alarms(x, Design("t")) > 50
    assert worlds.alarms(x, Design(reuse=(resplit(*worlds.SPLIT),))) <= bound(150)


def test_one_test_set_is_not_all_there_are():
    x = worlds.one_test_set(np.random.default_rng(3), 100, 1, 9, 10)
    assert worlds.alarms(x, Design("t")) > 30
    assert worlds.alarms(x, Design(reuse=(Reuse(fixed=1000),))) <= bound(100)


def test_five_seeds_find_two_standard_deviations_in_60_of_100_cases(monkeypatch):
    monkeypatch.setattr(worlds, "TIMES", 200)
    assert worlds.students_power(5, -2.0, differ=1) < 55
    assert worlds.power(5, -2.0, differ=1) >= 75
    assert worlds.power(5, -2.0, differ=1, spread=0.6) >= 60
    assert worlds.power(5, 2.0, differ=8, shared=2 / 9) >= 60


def printed(part, line):
    """The cells of a line of the published tables."""
    text = (PLACE.parents[1] / "docs" / "results" / "false-alarms.txt").read_text(encoding="utf-8")
    table = text.split(f"## {part}\n")[1].split("\n## ")[0].splitlines()
    return next(
        [cell.strip() for cell in row.split("|")[2:-1]] for row in table if f"| {line} |" in row
    )


@pytest.mark.parametrize(
    ("part", "number"),
    [
        ("nemenyi", 1),
        ("few_methods", 12),
        pytest.param("nemenyi", 0, marks=pytest.mark.slow),
        pytest.param("two_best", 0, marks=pytest.mark.slow),
        pytest.param("powers", 3, marks=pytest.mark.slow),
    ],
)
def test_published_tables_are_what_the_program_prints(part, number):
    """Some lines of them; every line draws on its own."""
    line = list(worlds.PARTS[part]().lines)[number]
    assert worlds.made(part, number) == printed(part, line)


def test_fedavg_against_itself_is_recomputed_from_its_runs():
    import same_method

    place = PLACE.parents[1] / "docs" / "results" / "same-method.json"
    runs = np.array([some[: same_method.RUNS] for some in json.loads(place.read_text())])
    for seeds in (5, 20):
        for rule, reuse in same_method.RULES.items():
            found = [same_method.error(runs, c, 1, seeds, reuse) for c in range(1, 10)]
            name = f"one copy, {seeds} seeds, for {rule}"
            assert [f"{f:.1f}" for f in found] == printed("same_method", name)


@pytest.mark.parametrize(
    ("copies", "rule"), [(1, "fresh rows"), pytest.param(1, "these rows", marks=pytest.mark.slow)]
)
def test_fedavg_is_told_apart_from_itself_by_speed_as_often_as_is_written(copies, rule):
    """On five seeds; scores and speeds are families of their own, so either errs more than one."""
    import same_speed

    place = PLACE.parents[1] / "docs" / "results" / "same-speed.json"
    runs = np.array(json.loads(place.read_text()))
    found = same_speed.line(runs, copies, 5, rule)
    assert found == printed("same_speed", f"one copy, 5 seeds, for {rule}")
    alone = [float(part) for cell in found for part in cell.split(" / ")[:2]]
    assert max(alone) <= 6


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("conditions", range(1, 10))
@pytest.mark.parametrize("seeds", [5, 20])
def test_the_whole_family_errs_in_at_most_six_of_a_hundred(conditions, seeds):
    x = worlds.alike(np.random.default_rng(seeds), 2000, conditions, 9, seeds)
    assert worlds.alarms(x) <= 6
    again = worlds.fixed_rules(np.random.default_rng(seeds), 400, conditions, 9, seeds)
    assert worlds.alarms(again, Design(reuse=(resplit(*worlds.SPLIT),) * conditions)) <= 6
