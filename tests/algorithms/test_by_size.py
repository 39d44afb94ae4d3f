"""Sampling by size: large clients come up more often and count the same."""

import pytest
import torch
from federations import SIZES, composed, network_task, play, sampled

from unalike.errors import ConfigError
from unalike.parts.mixing.examples import ByExamples, Uniform

TASK, DATA = network_task("dense")


def test_large_clients_come_up_more_often() -> None:
    """One client a round: its chance is n_k / n."""
    recipe = composed(TASK, DATA, "by_size", rounds=4, **sampled(0.17))
    played = play(recipe, DATA, 1)
    drawn = torch.zeros(6)
    for t in range(3000):
        drawn[played.loop.timing.plan(t, played.states[0].known, ()).ids] += 1
    torch.testing.assert_close(drawn / 3000, torch.tensor(SIZES) / sum(SIZES), atol=0.03, rtol=0)


def test_sizes_count_once() -> None:
    """In the choice, and so not in the mean, unless a method says so."""
    assert composed(TASK, DATA, "by_size", **sampled(0.5)).mixing == Uniform()
    assert composed(TASK, DATA, "fedavg", **sampled(0.5)).mixing == ByExamples()


def test_everybody_cannot_be_chosen() -> None:
    with pytest.raises(ConfigError, match="nothing to choose"):
        composed(TASK, DATA, "by_size")
