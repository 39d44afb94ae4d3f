"""Tiers: a round takes as long as the slowest of one tier."""

import pytest
import torch
from federations import composed, network_task, play, sampled

from unalike.errors import ConfigError
from unalike.parts.participation.clock import Clock, Rate

TASK, DATA = network_task("dense")
CLOCK = Clock(Rate(10.0), Rate(1e6), Rate(1e6))  # a client is as slow as it is large
THIRD = sampled(0.34)


def test_rounds_are_as_fast_as_their_tier() -> None:
    """Sizes 5, 9, 16, 20, 30, 40 in three tiers of two."""
    recipe = composed(TASK, DATA, ("tifl", {"tiers": 3}), clock=CLOCK, rounds=12, **THIRD)
    played = play(recipe, DATA, 12)
    seconds = {(0, 1): 0.9, (2, 3): 2.0, (4, 5): 4.0}
    found = {tuple(r.ids.tolist()): r.seconds for r in played.rounds}
    assert found.keys() == seconds.keys()
    for tier, took in found.items():
        assert took == pytest.approx(seconds[tier], abs=0.01)


def test_one_tier_is_a_uniform_sample_of_all() -> None:
    recipe = composed(TASK, DATA, ("tifl", {"tiers": 1}), clock=CLOCK, **THIRD)
    loop = play(recipe, DATA, 1).loop
    drawn = torch.zeros(6)
    for t in range(1200):
        drawn[loop.timing.plan(t, loop.timing.blank(()), ()).ids] += 1
    torch.testing.assert_close(drawn / 1200, torch.full((6,), 2 / 6), atol=0.05, rtol=0)


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than the 6 clients"):
        composed(TASK, DATA, ("tifl", {"tiers": 7}))


def test_a_small_tier_takes_part_as_a_whole() -> None:
    """By the clock that there is without any setting."""
    recipe = composed(TASK, DATA, ("tifl", {"tiers": 3}))
    assert recipe.clock is not None
    assert [len(r.ids) for r in play(recipe, DATA, 3).rounds] == [2, 2, 2]
