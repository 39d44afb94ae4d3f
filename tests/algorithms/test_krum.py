"""Krum and Multi-Krum; what all defences share is in test_defences.py."""

import pytest
import torch
from federations import cohort, composed, network_task, play
from filtering import used

from unalike.algorithms.krum import Krum, scores
from unalike.engine.faults import Faults
from unalike.engine.server.guard import Guard
from unalike.errors import RunError
from unalike.tree import gram

LINE = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0], [9.0, 0.0], [9.5, 0.0]]


def test_krum_scores() -> None:
    """n = 6, f = 1: squared distances to the three nearest, by hand.

    0: 1 + 9 + 16; 1: 1 + 4 + 9; 3: 4 + 1 + 9; 4: 1 + 9 + 16; 9: .25 + 25 + 36;
    9.5: .25 + 30.25 + 42.25.
    """
    found = scores(gram({"u": torch.tensor(LINE)}), attackers=1)
    assert found.tolist() == pytest.approx([26.0, 14.0, 14.0, 26.0, 61.25, 72.75])


def test_krum_picks_the_first_of_the_best() -> None:
    """1 and 3 tie; a tie goes to the client with the lower number."""
    assert used(Krum(attackers=1), LINE) == [1.0, 0.0]


def test_multi_krum_averages_the_best() -> None:
    """(1 + 3 + 0 + 4) / 4: the pair at 9 is close to itself but to nobody else."""
    assert used(Krum(attackers=1, select=2), LINE) == [2.0, 0.0]
    assert used(Krum(attackers=1, select=4), LINE) == [2.0, 0.0]


def test_krum_reports_who_counted() -> None:
    """Those left out weigh nothing."""
    x = {"u": torch.tensor(LINE)}
    _, p = Krum(attackers=1, select=2)(x, torch.full((6,), 1 / 6), cohort([1.0] * 6))
    assert p.tolist() == [0.0, 0.5, 0.5, 0.0, 0.0, 0.0]


def test_krum_with_too_few_answers() -> None:
    with pytest.raises(RunError, match=r"got 6 answers.*2 attackers needs 7.*min_replies = 7"):
        used(Krum(attackers=2), LINE)


def test_krum_weights_are_recorded() -> None:
    """One client counts, the others weigh nothing."""
    task, data = network_task("dense")
    done = play(composed(task, data, ("krum", {"attackers": 1})), data, 2)
    for report in done.rounds:
        assert sorted(report.weights.tolist()) == [0.0] * 5 + [1.0]


def test_krum_when_clients_drop_out() -> None:
    """Said in one sentence, with the setting that makes such rounds be skipped."""
    task, data = network_task("dense")
    recipe = composed(task, data, ("krum", {"attackers": 1}))
    with pytest.raises(RunError, match=r"min_replies = 5"):
        play(recipe, data, 4, faults=Faults(drop=0.5))
    done = play(recipe, data, 4, faults=Faults(drop=0.5), guard=Guard(min_replies=5))
    assert any(r.skipped for r in done.rounds)
