"""Answers summed as they come are the answers held, and a round that needs more is played again."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from federations import composed, distance, network_task, play, same, sampled

from unalike.engine import loop as loops
from unalike.engine.faults import Faults
from unalike.engine.server.gather import Running
from unalike.engine.server.guard import Guard
from unalike.engine.transport import Replies
from unalike.parts.mixing.examples import ByExamples
from unalike.uploads import NotSummed

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


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "superfed_mm", "lg_fedavg"])
def test_a_rule_that_wants_more_than_the_sum_gets_the_round_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients begin it again with what they kept before it."""
    task, data = network_task("dense", torch.float64)
    settings: Any = (name, {"start": 0.0}) if name == "superfed_mm" else name
    recipe = replace(composed(task, data, settings, **ROUNDS), mixing=Fickle())
    held = play(recipe, data, 2, chunk=2)
    monkeypatch.setattr(loops, "HELD", 0)
    again = play(recipe, data, 2, chunk=2)
    assert again.loop.holds
    assert same(held.states[-1], again.states[-1])
    assert same(held.kept, again.kept)


@pytest.mark.parametrize("kind", ["nan", "huge"])
def test_refused_answers_are_left_out_of_the_sum(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    held, summed = both(monkeypatch, "fedavg", faults=Faults(garbage=0.4, kind=kind), seed=3)
    assert any(r.rejected for r in held.rounds)
    assert [r.rejected for r in held.rounds] == [r.rejected for r in summed.rounds]
    assert distance(held.x, summed.x) < 1e-12


def running(*lengths: float) -> Running:
    """Clients 0, 1, ... that send updates of these lengths one by one, and have 1, 2, ... examples.

    More than three times the median is refused, if it is also longer than the model's 20.
    """
    ids = torch.arange(len(lengths))
    made = Running((), ids, Guard(explode=3.0), 20.0, lambda stats: stats["examples"].double())
    for i, length in enumerate(lengths):
        stats = {"examples": torch.tensor([i + 1.0])}
        made.take(Replies(ids[i : i + 1], {"w": torch.tensor([[0.0, length]])}, stats))
    return made


def test_an_answer_that_looked_too_long_at_first_is_put_back() -> None:
    """50 after 1 is too long; with 60 and 40 the median is 40, and it is not."""
    made = running(1.0, 50.0, 60.0, 40.0)
    assert list(made.aside) == [1]
    ids, norms, _ = made.numbers()
    usable, why = made.guard.check(ids, norms, made.scale)
    assert usable.all()
    assert why == {}
    p = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    mean = made.uploads(ids)(ids).mean(p)
    assert mean["w"].tolist() == pytest.approx([0.0, 0.1 + 0.2 * 50 + 0.3 * 60 + 0.4 * 40])


def test_a_sum_that_holds_a_refused_answer_is_of_no_use() -> None:
    """50 alone is fine; with three of length 1 beside it, it is not."""
    made = running(50.0, 1.0, 1.0, 1.0)
    ids, norms, _ = made.numbers()
    usable, why = made.guard.check(ids, norms, made.scale)
    assert list(why) == [0]
    with pytest.raises(NotSummed):
        made.uploads(ids[usable])


def test_dropped_clients_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    held, summed = both(monkeypatch, "fedavg", faults=Faults(drop=0.5), seed=2)
    assert any(len(r.ids) < 6 for r in held.rounds)
    assert distance(held.x, summed.x) < 1e-12
