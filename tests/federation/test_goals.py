"""What partitioners are asked for against what clients get, over many draws."""

from typing import Any

import numpy as np
import pytest
from partitions import counted

from unalike.federation.goals import Goal, Outcome, outcomes
from unalike.federation.partition import PARTITIONERS, Partitioner
from unalike.federation.partition.base import Labels
from unalike.federation.target import TARGETED, settings_for

LABELS = Labels(np.arange(60_000) % 10, 10)
FEW = Labels(np.arange(6_000) % 10, 10)  # for partitioners whose clients are large
MIXED = [
    {"sizes": sizes, "alphas": [50.0, alpha]}
    for sizes in ([2, 8], [5, 5], [8, 2])
    for alpha in (0.5, 1.0, 5.0)
]
BY_CONCENTRATION: list[tuple[str, dict[str, Any]]] = [
    *(("mixed", settings) for settings in MIXED),
    *(("dirichlet", {"alpha": alpha}) for alpha in (0.1, 0.5, 5.0)),
    ("niid1", {}),
]
BY_TARGET = [
    *((name, emd) for name in TARGETED for emd in (0.4, 1.0, 1.4, 1.6)),
    *((name, 1.8) for name in TARGETED if name != "dirichlet"),
]


def drawn(partitioner: Partitioner, labels: Labels, draws: int) -> list[tuple[Outcome, ...]]:
    """What came of every goal, for many draws."""
    goals, found = partitioner.goals(labels), []
    for seed in range(draws):
        owner, _, marks = partitioner.assign(labels, np.random.default_rng(seed))
        counts = counted(owner, labels.labels, partitioner.clients)
        found.append(outcomes(goals, counts, [(mark,) for mark in marks]))
    return found


def check(partitioner: Partitioner, labels: Labels, draws: int, within: float) -> None:
    """On average every goal is reached, within a share of it."""
    found = drawn(partitioner, labels, draws)
    assert found[0]
    for of_goal in zip(*found, strict=True):
        mean = np.mean([outcome.got for outcome in of_goal])
        assert mean == pytest.approx(of_goal[0].asked, rel=within), of_goal[0].what


@pytest.mark.parametrize(("name", "emd"), BY_TARGET)
def test_every_draw_has_the_wanted_emd(name: str, emd: float) -> None:
    for partitioner in settings_for(emd, name, 20, 10):
        for found in drawn(partitioner, LABELS, 3):
            assert found[0].got == pytest.approx(emd, rel=0.005)


@pytest.mark.parametrize(("name", "settings"), BY_CONCENTRATION)
def test_concentrations_are_delivered_on_average(name: str, settings: dict[str, Any]) -> None:
    """The largest standard error of 200 draws is 0.9 %, that of two clients of Dirichlet(0.5)."""
    check(PARTITIONERS[name](**settings), FEW, 200, within=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "emd"), BY_TARGET)
@pytest.mark.parametrize("clients", [10, 20, 40])
def test_two_hundred_draws_have_the_wanted_emd(name: str, emd: float, clients: int) -> None:
    for partitioner in settings_for(emd, name, clients, 10):
        check(partitioner, LABELS, 200, within=0.02)


def test_every_partitioner_that_names_a_skew_has_a_goal() -> None:
    named = {name for name, cls in PARTITIONERS.items() if cls().goals(FEW)}
    assert named == {name for name, _ in BY_TARGET} | {name for name, _ in BY_CONCENTRATION}


def test_the_outcome_of_some_clients_is_their_plain_mean_from_the_centre() -> None:
    counts = np.array([[8, 2], [1, 9], [300, 300]])
    goals = [Goal("all", 0.5), Goal("two", 0.7, "odd", (0.5, 0.5)), Goal("none", 1.0, "absent")]
    found = outcomes(goals, counts, [("odd",), ("even", "odd"), ()])
    pooled = np.array([309, 311]) / 620
    apart = np.abs(counts / counts.sum(axis=1, keepdims=True) - pooled).sum(axis=1)
    assert [outcome.what for outcome in found] == ["all", "two"]
    assert found[0].got == pytest.approx(apart @ counts.sum(axis=1) / 620)
    assert found[1].got == pytest.approx((0.6 + 0.8) / 2)
