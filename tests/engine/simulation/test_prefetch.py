"""Draws of the next round are those that would be drawn in it."""

from typing import Any

import torch
from federations import composed, network_task, play, same, sampled

from unalike import rng
from unalike.engine.simulation.prefetch import Foresight, Prepared
from unalike.engine.simulation.simulate import Simulation
from unalike.parts.schedule import Participation, Phased, Plan, Sampled

CPU = torch.device("cpu")
SOME = Sampled(Participation(number=3))


class Counted:
    """Draws that can be told apart."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, t: int, plan: Plan) -> Any:
        self.asked.append(t)
        return t, plan.ids.tolist()


def plan(t: int, schedule: Any = SOME) -> Plan:
    """As the server makes it."""
    return schedule.plan(t, range(10), 8, rng.stream(4, "cohort"))


def test_the_cohort_that_comes_is_not_drawn_again():
    draws = Counted()
    ahead = Prepared(draws, Foresight.of(SOME, 8, 4), CPU)
    ahead.prepare(5)
    assert ahead(5, plan(5)) == (5, plan(5).ids.tolist())
    assert draws.asked == [5]
    ahead(5, plan(5))
    assert draws.asked == [5, 5], "once used it is gone"


def test_another_cohort_or_round_has_its_own_draws():
    draws = Counted()
    ahead = Prepared(draws, Foresight.of(SOME, 8, 4), CPU)
    ahead.prepare(5)
    fewer = Plan(*(field[:2] for field in plan(5)))
    assert ahead(5, fewer) == (5, plan(5).ids[:2].tolist())
    ahead.prepare(5)
    assert ahead(6, plan(6)) == (6, plan(6).ids.tolist())
    longer = plan(6)._replace(epochs=plan(6).epochs + 1)
    ahead.prepare(6)
    ahead(6, longer)
    assert draws.asked == [5, 5, 5, 6, 6, 6]


def test_schedules_that_look_back_are_not_foreseen():
    draws = Counted()
    ahead = Prepared(draws, Foresight.of(Phased(2), 8, 4), CPU)
    ahead.prepare(5)
    assert not draws.asked


def test_a_run_is_the_same(monkeypatch):
    """Through the simulation, as on a GPU, and in every round but the first."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", rounds=4, **sampled(0.5, 1.0))
    plain = play(recipe, data, 4, batch_size=3)
    used = list[bool]()
    begin, call = Simulation.begin, Prepared.__call__

    def begun(self: Simulation, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        self.calls = lambda *_: None

    def noted(self: Prepared, t: int, plan: Plan) -> Any:
        used.append(self._held is not None and self._held[0] == t)
        return call(self, t, plan)

    monkeypatch.setattr(Simulation, "begin", begun)
    monkeypatch.setattr(Prepared, "__call__", noted)
    found = play(recipe, data, 4, batch_size=3)
    assert same(plain.states[-1].servers, found.states[-1].servers)
    assert used == [False, True, True, True]
