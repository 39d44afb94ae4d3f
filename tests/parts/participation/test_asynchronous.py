"""The course of events of asynchronous rounds, against one that was worked out by hand."""

import torch

from unalike import rng
from unalike.parts.participation.asynchronous import Buffered, Timeline

KEY = rng.key(1)


def events(seconds: list[float], buffer: int, concurrency: int, stalest: int = 100) -> Timeline:
    return Timeline(torch.tensor(seconds), KEY, buffer, concurrency, stalest, 0.0)


def test_equal_speeds_are_rounds() -> None:
    """All that started together arrive together, every second, and nobody is stale."""
    found = events([1.0] * 8, 4, 4)
    for t in range(5):
        step = found.step(t)
        assert step.at == t + 1
        assert {a.version for a in step.arrivals} == {t}
        assert len({a.client for a in step.arrivals}) == 4


def test_one_at_a_time() -> None:
    """A buffer of one and one worker: a sequence of single clients without staleness."""
    found, now = events([1.0, 2.0, 4.0], 1, 1), 0.0
    for t in range(6):
        (arrival,) = found.step(t).arrivals
        now += [1.0, 2.0, 4.0][arrival.client]
        assert (found.step(t).at, arrival.version) == (now, t)


def test_a_slow_client_is_stale() -> None:
    """Two workers, one of whom needs ten times as long: nine steps pass meanwhile."""
    found = events([1.0, 1.0, 10.5], 1, 2)
    ages = {t - a.version for t in range(60) for a in found.step(t).arrivals if a.client == 2}
    assert ages
    assert max(ages) >= 9
    assert all(
        t - a.version <= 1 for t in range(60) for a in found.step(t).arrivals if a.client < 2
    )


def test_too_old_is_thrown_away() -> None:
    found = events([1.0, 1.0, 10.5], 1, 2, stalest=3)
    assert all(t - a.version <= 3 for t in range(60) for a in found.step(t).arrivals)
    assert {i for t in range(60) for i in found.step(t).lost} == {2}


def test_nobody_is_twice_in_a_buffer() -> None:
    draw = torch.Generator().manual_seed(0)
    found = events((torch.rand(12, generator=draw) + 0.1).tolist(), 5, 6)
    for t in range(40):
        clients = [a.client for a in found.step(t).arrivals]
        assert clients == sorted(set(clients))
        assert t == 0 or found.step(t).at >= found.step(t - 1).at


def test_a_place_stays_free_while_nobody_is_idle() -> None:
    """All four work, three answers make a step: the quick ones wait until it is taken.

    Answers at 1, 2 and 3 seconds, then the three start again; the slow one comes at 10.
    """
    found = events([1.0, 2.0, 3.0, 10.0], 3, 4)
    assert found.step(0)[:2] == (3.0, ((0, 0), (1, 0), (2, 0)))
    assert found.step(1)[:2] == (6.0, ((0, 1), (1, 1), (2, 1)))
    assert found.step(2)[:2] == (9.0, ((0, 2), (1, 2), (2, 2)))
    assert found.step(3)[:2] == (11.0, ((0, 3), (1, 3), (3, 0)))


def test_events_are_a_function_of_the_key() -> None:
    """Asked for in any order."""
    seconds = [0.5, 1.0, 2.0, 3.0, 0.7]
    one, other = (events(seconds, 2, 2) for _ in range(2))
    assert one.step(20) == other.step(20)
    assert [one.step(t) for t in range(5)] == [other.step(t) for t in range(5)]


def test_the_plan_of_a_step() -> None:
    schedule = Buffered(buffer=2, concurrency=2, epochs=1.5)
    found = schedule.timeline(KEY, torch.tensor([1.0, 1.3, 5.0, 0.2]), 0.0)
    plan = schedule.arrived(7, found.step(7))
    assert plan.ids.tolist() == [a.client for a in found.step(7).arrivals]
    assert plan.role.tolist() == [7 - a.version for a in found.step(7).arrivals]
    assert plan.epochs.tolist() == [1.5, 1.5]
