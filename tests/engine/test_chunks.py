"""Cutting a cohort into calls: nobody is lost, no call is too large, no other cut is cheaper."""

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from unalike.engine.chunks import chunks, most, shares

steps_ = st.lists(st.integers(1, 500), min_size=1, max_size=9)


def cost(steps: np.ndarray, cut: list[list[int]], overhead: float) -> float:
    """T (overhead + n) for every call."""
    return sum(float(steps[c].max()) * (overhead + len(c)) for c in cut)


@given(steps_, st.integers(1, 10), st.floats(0, 50))
def test_everybody_is_in_one_call(steps: list[int], largest: int, overhead: float) -> None:
    """Exactly one, of bounded size."""
    found = [c.tolist() for c in chunks(np.array(steps), largest, overhead)]
    assert sorted(i for c in found for i in c) == list(range(len(steps)))
    assert max(len(c) for c in found) <= largest


@given(steps_, st.integers(1, 10), st.floats(0, 50))
def test_no_cut_is_cheaper(steps: list[int], largest: int, overhead: float) -> None:
    """Against all cuts of the sorted clients; in particular against one call for all."""
    s, n = np.array(steps), len(steps)
    found = cost(s, [c.tolist() for c in chunks(s, largest, overhead)], overhead)
    order = np.argsort(-s, kind="stable")
    best = np.inf
    for mask in range(2 ** (n - 1)):
        ends = [0, *(i + 1 for i in range(n - 1) if mask >> i & 1), n]
        cut = [order[a:b].tolist() for a, b in pairwise(ends)]
        if max(len(c) for c in cut) <= largest:
            best = min(best, cost(s, cut, overhead))
    assert found <= best + 1e-6


def test_equal_clients_share_one_call_and_unequal_ones_do_not() -> None:
    """Where a call has a price, and where it has almost none."""
    assert len(list(chunks(np.full(30, 7), 64, 8))) == 1
    assert len(list(chunks(np.array([1000, 1]), 64, 0.1))) == 2
    assert len(list(chunks(np.array([1000, 1]), 64, 1e6))) == 1


def test_the_most_clients_follow_from_memory() -> None:
    """At least one, however large the model."""
    cpu = torch.device("cpu")
    assert most(1 << 40, 0, cpu) == 1
    assert most(1000, 0, cpu) > most(10_000, 0, cpu) > 1
    assert most(1000, 10**6, cpu) < most(1000, 0, cpu)


@given(steps_, st.integers(1, 4))
def test_shares_are_fair(steps: list[int], count: int) -> None:
    """Everybody is in one group, and no group can be ahead of another by more than one client."""
    found = [s.tolist() for s in shares(np.array(steps), count)]
    assert sorted(i for s in found for i in s) == list(range(len(steps)))
    load = [sum(steps[i] for i in s) for s in found]
    least = min(load)
    assert all(sum(steps[i] for i in s) - min(steps[i] for i in s) <= least for s in found)
