"""Who is chosen: chances, losses, tiers."""

import itertools

import pytest
import torch

from unalike import rng
from unalike.errors import ConfigError
from unalike.parts.participation.selection import BySize, PowerOfChoice, Seen, Tiers, by_size

KEY = rng.key(5)
SIZES = torch.tensor([1, 2, 3, 4])


def seen(losses: list[float] | None = None, seconds: list[float] | None = None) -> Seen:
    known = torch.full((4,), torch.inf) if losses is None else torch.tensor(losses)
    return Seen(SIZES, known, None if seconds is None else torch.tensor(seconds))


def test_chances_by_size() -> None:
    """Pairs in order: n_a / 10 times n_b / (10 - n_a), over all keys."""
    n, drawn = 6_000, {}
    for t in range(n):
        pair = tuple(by_size(rng.fold_in(KEY, t), SIZES, 2).tolist())
        drawn[pair] = drawn.get(pair, 0) + 1
    for a, b in itertools.permutations(range(4), 2):
        chance = (a + 1) / 10 * (b + 1) / (9 - a)
        assert drawn[a, b] / n == pytest.approx(chance, abs=0.02)


def test_the_highest_losses_of_the_candidates() -> None:
    rule = PowerOfChoice(3)
    for t in range(50):
        candidates = by_size(rng.fold_in(KEY, t), SIZES, 3).tolist()
        found = rule.choose(t, 2, KEY, seen([0.1, 0.4, 0.3, 0.2])).tolist()
        order = [1, 2, 3, 0]  # by loss
        assert sorted(found) == sorted(sorted(candidates, key=order.index)[:2])


def test_who_was_never_heard_comes_first() -> None:
    losses = [5.0, torch.inf, 6.0, torch.inf]
    assert sorted(PowerOfChoice(4).choose(0, 2, KEY, seen(losses)).tolist()) == [1, 3]


def test_as_many_candidates_as_clients_are_chosen_by_size() -> None:
    """d = m is sampling by size."""
    for t in range(20):
        one = PowerOfChoice(2).choose(t, 2, KEY, seen([0.1, 0.2, 0.3, 0.4]))
        assert set(one.tolist()) == set(BySize().choose(t, 2, KEY, seen()).tolist())


def test_a_round_belongs_to_one_tier() -> None:
    """Two tiers: clients 1 and 3 are fast, 0 and 2 slow; both come up."""
    rule, found = Tiers(2), set()
    for t in range(40):
        chosen = rule.choose(t, 2, KEY, seen(seconds=[9.0, 1.0, 8.0, 2.0])).tolist()
        found.add(tuple(sorted(chosen)))
    assert found == {(1, 3), (0, 2)}


def test_tiers_need_a_clock() -> None:
    with pytest.raises(ConfigError, match=r"clock\.kind"):
        Tiers(2).choose(0, 2, KEY, seen())
