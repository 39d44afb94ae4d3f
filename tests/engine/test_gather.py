"""Answers summed as they come are the answers held, and a round that needs more is played again."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from federations import composed, distance, network_task, play, same, sampled

from unalike.engine import loop as loops
from unalike.engine.faults import Faults
from unalike.engine.guard import Guard
from unalike.parts.mixing.examples import ByExamples


@pytest.fixture
def summing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is summed that can be."""
    monkeypatch.setattr(loops, "HELD", 0)


ROUNDS = {**sampled(1.0), "rounds": 3}


def both(monkeypatch: pytest.MonkeyPatch, *methods: Any, **options: Any) -> tuple[Any, Any]:
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, *methods, **ROUNDS)
    held = play(recipe, data, 3, chunk=2, **options)
    monkeypatch.setattr(loops, "HELD", 0)
    return held, play(recipe, data, 3, chunk=2, **options)


@pytest.mark.parametrize(
    "methods",
    [("fedavg",), ("fedprox", "fedadam"), ("scaffold",), ("superfed_mm",), ("lg_fedavg",)],
    ids="+".join,
)
def test_a_sum_is_what_holding_gives(
    monkeypatch: pytest.MonkeyPatch, methods: tuple[str, ...]
) -> None:
    held, summed = both(monkeypatch, *methods)
    assert not summed.loop.holds
    assert distance(held.states[-1].stack, summed.states[-1].stack) < 1e-12
    assert torch.equal(held.rounds[-1].weights, summed.rounds[-1].weights)


@pytest.mark.parametrize("methods", [("median",), ("qfedavg",), ("krum",)], ids="+".join)
def test_a_rule_that_compares_holds_everything(
    monkeypatch: pytest.MonkeyPatch, methods: tuple[str, ...]
) -> None:
    held, other = both(monkeypatch, *methods)
    assert other.loop.holds
    assert same(held.states[-1], other.states[-1])


@dataclass(frozen=True)
class Fickle(ByExamples):
    """Says that its weights are in proportion to the examples, and then they are not."""

    def weights(self, state: Any, cohort: Any) -> Any:
        done = super().weights(state, cohort)
        return done._replace(p=done.p.flip(0))


def test_a_rule_that_wants_more_than_the_sum_gets_the_round_again(summing: None) -> None:
    task, data = network_task("dense", torch.float64)
    recipe = replace(composed(task, data, "fedavg", **ROUNDS), mixing=Fickle())
    played = play(recipe, data, 2, chunk=2)
    assert played.loop.holds
    others = replace(composed(task, data, "fedavg", **ROUNDS), mixing=Fickle())
    loop_holds = play(replace(others, filters=(lambda ups, p, cohort: (ups, p),)), data, 2, chunk=2)
    assert distance(played.x, loop_holds.x) < 1e-12


@pytest.mark.parametrize("kind", ["nan", "huge"])
def test_refused_answers_are_left_out_of_the_sum(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    held, summed = both(monkeypatch, "fedavg", faults=Faults(garbage=0.4, kind=kind), seed=3)
    assert any(r.rejected for r in held.rounds)
    assert [r.rejected for r in held.rounds] == [r.rejected for r in summed.rounds]
    assert distance(held.x, summed.x) < 1e-12


def test_an_answer_that_looked_too_long_at_first_is_put_back(summing: None) -> None:
    """The first chunk converged; next to the others its neighbours are honest."""
    guard = Guard(explode=3.0)
    norms = torch.tensor([1.0, 50.0, 60.0, 40.0], dtype=torch.float64)
    assert guard.usable(norms[:2], 1.0).tolist() == [True, False]
    assert guard.usable(norms, 20.0).tolist() == [True, True, True, True]


def test_dropped_clients_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    held, summed = both(monkeypatch, "fedavg", faults=Faults(drop=0.5), seed=2)
    assert any(len(r.ids) < 6 for r in held.rounds)
    assert distance(held.x, summed.x) < 1e-12
