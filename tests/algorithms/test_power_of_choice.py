"""Power of choice: high losses are heard, and their memory is a part of the server's state."""

import pytest
import torch
from federations import composed, distance, network_task, play, sampled

from unalike.errors import ConfigError
from unalike.parts.mixing.examples import Uniform
from unalike.parts.participation.selection import PowerOfChoice, Seen, Selected

TASK, DATA = network_task("dense", torch.float64)
THIRD = sampled(0.34)
ALL = ("power_of_choice", {"candidates": 3.0})


def test_the_cohort_is_the_choice_from_the_last_losses() -> None:
    """Everybody is a candidate: after three rounds all are heard, then the highest losses are."""
    recipe = composed(TASK, DATA, ALL, rounds=8, **THIRD)
    assert recipe.schedule == Selected(recipe.schedule.participation, selection=PowerOfChoice(6))
    assert recipe.mixing == Uniform()
    played = play(recipe, DATA, 8)
    last = torch.full((6,), torch.inf, dtype=torch.float64)
    for t, done in enumerate(played.rounds):
        seen = Seen(played.simulation.clients.sizes, last.clone(), None)
        want = PowerOfChoice(6).choose(t, 2, played.loop.cohorts, seen)
        assert done.ids.tolist() == want.sort().values.tolist()
        last[done.ids] = done.stats["loss"].double()
        assert torch.equal(played.states[t + 1].known.losses, last)
    assert {i for r in played.rounds[:3] for i in r.ids.tolist()} == set(range(6))


def test_both_engines() -> None:
    recipe = composed(TASK, DATA, "power_of_choice", "fedprox", rounds=4, **THIRD)
    one, many = (play(recipe, DATA, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.x, many.x) < 1e-9


def test_as_many_candidates_as_clients_is_sampling_by_size() -> None:
    one = composed(TASK, DATA, ("power_of_choice", {"candidates": 1.0}), **THIRD)
    other = composed(TASK, DATA, "by_size", **THIRD)
    assert distance(play(one, DATA).x, play(other, DATA).x) == 0


def test_nothing_to_choose() -> None:
    with pytest.raises(ConfigError, match="nothing to choose"):
        composed(TASK, DATA, "power_of_choice")


@pytest.mark.parametrize("private", ["dp", "local_dp"])
def test_privacy_counts_cohorts_beforehand(private: str) -> None:
    with pytest.raises(ConfigError):
        composed(TASK, DATA, "power_of_choice", (private, {"delta": 0.01}), **THIRD)
