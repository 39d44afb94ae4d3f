"""Who takes part."""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unalike import rng
from unalike.errors import ConfigError
from unalike.parts.schedule import Participation, Sampled
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment


@pytest.mark.parametrize(
    ("fraction", "n", "count"),
    [
        (0.29, 100, 29),
        (0.1, 100, 10),
        (0.07, 100, 7),
        (0.001, 100, 1),
        (0.0, 100, 1),
        (1.0, 7, 7),
        (0.5, 7, 3),
    ],
)
def test_fractions_of_clients(fraction: float, n: int, count: int) -> None:
    """max(1, floor(C n)), safe from binary fractions."""
    assert Participation(fraction).count(n) == count


def test_a_file_may_ask_for_a_fraction_of_zero() -> None:
    """m = max(floor(0 K), 1): one client a round, not always the same."""
    made = experiment(parse({"data": "digits", "participation": {"fraction": 0.0}}))
    state, ids = made.loop.begin(made.w), []
    for t in range(4):
        state, report = made.loop.advance(state, t)
        assert len(report.ids) == 1
        ids.append(int(report.ids))
    assert len(set(ids)) > 1
    with pytest.raises(ConfigError, match=r"participation\.fraction"):
        parse({"participation": {"fraction": -0.1}})


def test_a_number_of_clients() -> None:
    """At most as many as there are."""
    assert Participation(number=5).count(9) == 5
    with pytest.raises(ConfigError, match=r"participation\.number is 10 but there are only 9"):
        Participation(number=10).count(9)


@dataclass(frozen=True)
class Listed(Sampled):
    """A schedule of a user's own, with a setting that no dictionary takes for a key."""

    names: list[str] = field(default_factory=list)


def test_a_schedule_need_not_be_hashable() -> None:
    """What is remembered of cohorts is remembered by numbers."""
    mine, usual = (
        one(Participation(0.5)).plan(3, range(9), 20, rng.key(1)) for one in (Listed, Sampled)
    )
    assert torch.equal(mine.ids, usual.ids)
    others = [Sampled(Participation(0.5)).plan(3, range(9), 20, rng.key(k)).ids for k in range(2)]
    assert not torch.equal(*others)


@given(st.integers(1, 60), st.floats(0.01, 1.0), st.integers(0, 1000))
def test_a_plan(n: int, fraction: float, t: int) -> None:
    """Distinct clients in ascending order, all of whom answer."""
    plan = Sampled(Participation(fraction), 1.3).plan(t, range(10**6), n, rng.key(0))
    assert len(plan.ids) == Participation(fraction).count(n)
    assert torch.equal(plan.ids, plan.ids.unique())
    assert int(plan.ids.max()) < n
    assert plan.reply.all()
    assert not plan.role.any()
    assert plan.epochs.tolist() == [1.3] * len(plan.ids)


def test_full_participation_is_everybody_in_every_round() -> None:
    """In order."""
    for t in range(3):
        assert Sampled().plan(t, range(3), 5, rng.key(0)).ids.tolist() == [0, 1, 2, 3, 4]
