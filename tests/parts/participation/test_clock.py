"""The simulated clock: seconds by hand, distributions, who is late."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from federations import Played, composed, network_task, play

from unalike import rng
from unalike.parts.participation.clock import Clock, Rate
from unalike.parts.participation.schedule import Participation

TASK, DATA = network_task("dense")
KEY = rng.stream(0, "clock")
EVEN = Clock(Rate(10.0), Rate(100.0), Rate(50.0), latency=0.5)


def test_seconds_by_hand() -> None:
    """Two latencies, 200 bytes at 100 a second, 30 examples at 10, 100 bytes at 50."""
    found = EVEN.seconds(KEY, 0, torch.tensor([3]), torch.tensor([30]), 200, 100)
    assert found.tolist() == [0.5 + 2 + 3 + 0.5 + 2]


def test_distributions() -> None:
    keys = rng.fold_in(KEY, torch.arange(20_000))
    drawn = Rate(8.0, 0.7).draw(keys)
    assert float(drawn.median()) == pytest.approx(8, rel=0.02)
    assert float(drawn.log().std()) == pytest.approx(0.7, rel=0.02)
    even = Rate(8.0, 0.5, "uniform").draw(keys)
    assert (float(even.min()), float(even.max())) == pytest.approx((4, 12), rel=0.01)
    assert float(even.mean()) == pytest.approx(8, rel=0.01)
    assert set(Rate(8.0, 0.5, "constant").draw(keys).tolist()) == {8.0}


def test_devices_stay_and_jitter_changes() -> None:
    ids, work = torch.arange(6), torch.full((6,), 10)
    clock = replace(EVEN, speed=Rate(10.0, 1.0))
    first, second = (clock.seconds(KEY, t, ids, work, 0, 0) for t in (0, 1))
    assert torch.equal(first, second)
    assert len(set(first.tolist())) == 6
    shaken = replace(clock, jitter=0.5)
    first, second = (shaken.seconds(KEY, t, ids, work, 0, 0) for t in (0, 1))
    assert not torch.equal(first, second)
    some = torch.tensor([4, 1])
    assert torch.equal(shaken.seconds(KEY, 1, some, work[:2], 0, 0), second[some])


def timed(clock: Clock, *methods: Any, rounds: int = 3, **parts: Any) -> Played:
    made = composed(TASK, DATA, *methods or ("fedavg",), clock=clock, rounds=rounds, **parts)
    return play(made, DATA, rounds)


def test_a_round_takes_as_long_as_its_slowest_client() -> None:
    """The largest client has 40 examples; a model has 752 bytes."""
    assert timed(EVEN).rounds[0].seconds == pytest.approx(1 + 752 / 100 + 40 / 10 + 752 / 50)


def test_smaller_uploads_are_faster() -> None:
    assert timed(EVEN, "eight_bit").rounds[0].seconds == pytest.approx(
        1 + 752 / 100 + 40 / 10 + (188 + 24) / 50
    )


def test_no_clock_no_seconds() -> None:
    assert play(composed(TASK, DATA, "fedavg"), DATA, 1).rounds[0].seconds is None


def test_a_clock_alone_changes_nothing_else() -> None:
    plain = play(composed(TASK, DATA, "fedavg"), DATA, 3)
    assert all(torch.equal(plain.x[k], v) for k, v in timed(EVEN).x.items())


def test_the_late_are_left_out() -> None:
    """Clients of 5, 9, 16, 20, 30 and 40 examples; 22.56 seconds and a tenth for each."""
    least = 1 + 752 / 100 + 752 / 50
    played = timed(replace(EVEN, deadline=least + 2.05))
    assert [r.ids.tolist() for r in played.rounds] == [[0, 1, 2, 3]] * 3
    assert played.rounds[0].seconds == pytest.approx(least + 2.05)
    assert played.rounds[0].traffic[:2] == (6 * 752, 4 * (752 + 8))  # all were sent a model


def test_a_deadline_that_nobody_meets_skips_the_round() -> None:
    played = timed(replace(EVEN, deadline=1.0), "scaffold", ("topk", {"share": 0.1}))
    assert all(r.skipped for r in played.rounds)
    assert played.rounds[0].seconds == 1.0


def test_a_deadline_that_all_meet_is_none() -> None:
    plain, met = timed(EVEN), timed(replace(EVEN, deadline=1000.0))
    assert [r.seconds for r in plain.rounds] == [r.seconds for r in met.rounds]
    assert all(torch.equal(plain.x[k], v) for k, v in met.x.items())


def test_the_first_answers_count() -> None:
    """Three are needed, one half more are invited: the fastest three of five."""
    played = timed(EVEN, rounds=6, participation=Participation(0.5, extra=0.5))
    sizes = torch.tensor([5, 9, 16, 20, 30, 40])
    for t, done in enumerate(played.rounds):
        plan = played.loop.recipe.schedule.plan(t, range(6), 6, played.loop.cohorts)
        assert len(plan.ids) == math.ceil(1.5 * 3)
        assert done.ids.tolist() == plan.ids[sizes[plan.ids].argsort()[:3]].sort().values.tolist()
        slowest = int(sizes[done.ids].max())
        assert done.seconds == pytest.approx(1 + 752 / 100 + slowest / 10 + 752 / 50)
