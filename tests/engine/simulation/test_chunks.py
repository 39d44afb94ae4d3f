"""Cutting a cohort into calls: nobody is lost, no call is too large, no other cut is cheaper."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from federations import composed, network_task, play, same, sampled
from hypothesis import given
from hypothesis import strategies as st

from unalike.engine.server.gather import Gathered
from unalike.engine.simulation import chunks as chunking
from unalike.engine.simulation import simulate as simulating
from unalike.engine.simulation import vmapped as calling
from unalike.engine.simulation.chunks import chunks, most, shares

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


@pytest.mark.parametrize("method", ["fedavg", "topk", "fednova", "lg_fedavg"])
def test_pieces_of_a_call_are_answers_of_their_own(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python runs once for several; sums are those of calls of one piece each, to the bit."""
    task, data = network_task("dense")
    recipe = composed(task, data, method, **sampled(1.0))

    def played(call: int, workers: int) -> tuple[Any, int, int]:
        monkeypatch.setattr(chunking, "FEW_BYTES", 0)
        monkeypatch.setattr(simulating, "LITTLE_BYTES", 0)
        monkeypatch.setattr(chunking, "CALL_BYTES", call)
        calls, pieces, clients = [0], [0], calling.client
        taken = Gathered.take

        def called(*args: Any) -> Any:
            calls[0] += 1
            return clients(*args)

        def take(self: Gathered, part: Any) -> None:
            pieces[0] += 1
            taken(self, part)

        with monkeypatch.context() as m:
            m.setattr(calling, "client", called)
            m.setattr(Gathered, "take", take)
            x = play(recipe, data, 2, traced=True, workers=workers).x
        return x, calls[0], pieces[0]

    one, calls, pieces = played(1 << 30, 1)
    many, more, as_many = played(1, 2)
    assert same(one, many)
    assert calls < more <= as_many == pieces
