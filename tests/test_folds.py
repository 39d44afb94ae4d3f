"""What a step sees: which minibatch, which epoch, several at once; and what it costs.

Expected sequences come from plain loops over numbers of examples. Clients are ragged and do parts
of epochs; alone, in one vmapped call and in place, each sees its own minibatches and no others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap

from unalike import rng
from unalike.batches import Batch, Batches
from unalike.draws import Draw, Extent, alone, draw
from unalike.engine.compiled.cuda_graphs import Graphs
from unalike.gradient import counted, gradient

How = Literal["alone", "together", "in place"]
HOW: tuple[How, ...] = ("alone", "together", "in place")
LONGEST = 64


class Seen(NamedTuple):
    """One minibatch in a diary."""

    t: int
    epoch: int
    rows: int


def expected(n: int, epochs: float, batch: int) -> list[Seen]:
    """The minibatches of a client, by counting."""
    left = max(1, int(epochs) * n + int((epochs - int(epochs)) * n + 0.5))
    found: list[Seen] = []
    while left:
        for first in range(0, n, batch):
            rows = min(batch, n - first, left)
            if rows:
                found.append(Seen(len(found), sum(s.rows for s in found) // n, rows))
            left -= rows
    return found


def grouped(found: list[Seen], m: int) -> list[tuple[Seen, ...]]:
    """So many at a time, by counting."""
    steps = max(1, len(found) // m) if found else 0
    return [tuple(found[(s * m + j) % len(found)] for j in range(m)) for s in range(steps)]


class Diary(NamedTuple):
    """What a client saw, and how many entries there are."""

    page: Tensor  # [LONGEST, 3]
    entries: Tensor


@dataclass(frozen=True)
class Write:
    """A step that writes down every minibatch it sees, in order."""

    def __call__(self, carry: Diary, seen: Batch | tuple[Batch, ...], given: Any) -> Diary:
        page, entries = carry
        for b in seen if isinstance(seen[0], Batch) else (seen,):
            here = (torch.arange(LONGEST) == entries)[:, None]
            line = torch.stack([torch.as_tensor(v) for v in (b.t, b.epoch, b.real.sum())])
            page, entries = torch.where(here, line, page), entries + 1
        return Diary(page, entries)


@dataclass(frozen=True)
class Take:
    """A step that takes so many gradients on each minibatch it sees."""

    times: int
    passes: int = 1

    def __call__(self, carry: Tensor, seen: Batch | tuple[Batch, ...], given: Any) -> Tensor:
        for b in seen if isinstance(seen[0], Batch) else (seen,):
            for _ in range(self.times):
                g, _ = gradient(
                    lambda w, b=b: ((w * b.x * b.real).sum(), ()), carry, passes=self.passes
                )
                carry = carry + g
        return carry


def clients(sizes: list[int], epochs: list[float], batch: int) -> Draw:
    """Their minibatches."""
    n = torch.tensor(sizes)
    return draw(
        torch.arange(int(n.sum())),
        n,
        n.cumsum(0) - n,
        budget=n,
        epochs=torch.tensor(epochs, dtype=torch.float64),
        batch_size=batch,
        keys=rng.fold_in(rng.key(0), torch.arange(len(sizes))),
    )


def each(found: Draw, how: How, f: Callable[[Batches], Any]) -> list[Any]:
    """``f`` of every client's minibatches, computed one way or another."""
    x, extent, n = torch.arange(float(found.row.max()) + 1), Extent.of(found), len(found.row)
    keys = rng.fold_in(rng.key(1), torch.arange(n))
    if how == "alone":
        parts = alone(found)
        return [f(Batches(x, x, own, keys[i], e)) for i, (own, e) in enumerate(parts)]
    repeat = Graphs(lambda body: body) if how == "in place" else None
    got = vmap(lambda d, k: f(Batches(x, x, d, k, extent, repeat=repeat)))(found, keys)
    leaves, tree = torch.utils._pytree.tree_flatten(got)
    return [torch.utils._pytree.tree_unflatten([v[i] for v in leaves], tree) for i in range(n)]


def read(diary: Diary) -> list[Seen]:
    """The entries."""
    return [Seen(*line) for line in diary.page[: int(diary.entries)].tolist()]


EMPTY = Diary(torch.zeros(LONGEST, 3, dtype=torch.int64), torch.zeros((), dtype=torch.int64))

federations = st.lists(
    st.tuples(st.integers(1, 7), st.sampled_from([0.2, 0.5, 1.0, 1.3, 2.0, 2.75, 3.0])),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("how", HOW)
@settings(max_examples=25, deadline=None)
@given(federations, st.integers(1, 4))
def test_a_batch_knows_its_step_and_its_epoch(
    how: How, some: list[tuple[int, float]], batch: int
) -> None:
    sizes, epochs = [n for n, _ in some], [e for _, e in some]

    def whole(data: Batches) -> tuple[Diary, Tensor]:
        return data.fold(Write(), EMPTY), data.steps

    for i, (diary, steps) in enumerate(each(clients(sizes, epochs, batch), how, whole)):
        want = expected(sizes[i], epochs[i], batch)
        assert read(diary) == want
        assert int(steps) == len(want)


@pytest.mark.parametrize("how", HOW)
@settings(max_examples=40, deadline=None)
@given(federations, st.integers(1, 4), st.integers(0, 3), st.integers(0, 4), st.integers(1, 4))
def test_a_range_of_epochs_and_several_batches_a_step(
    how: How, some: list[tuple[int, float]], batch: int, a: int, length: int, m: int
) -> None:
    """Each client's own range; one that does not get as far does nothing."""
    sizes, epochs = [n for n, _ in some], [e for _, e in some]
    b = None if length == 4 else a + length

    def part(data: Batches) -> tuple[Diary, Tensor]:
        some = data.epochs(a, b)
        return some.fold(Write(), EMPTY, batches=m), some.steps

    for i, (diary, steps) in enumerate(each(clients(sizes, epochs, batch), how, part)):
        own = expected(sizes[i], epochs[i], batch)
        want = [s for s in own if a <= s.epoch < (99 if b is None else b)]
        assert read(diary) == [s for group in grouped(want, m) for s in group]
        assert int(steps) == len(want)


@pytest.mark.parametrize("how", HOW)
def test_ranges_one_after_another_are_the_whole(how: How) -> None:
    """The same rows with the same draws in the same order, in one fold or in three."""
    found = clients([5, 9, 2], [2.5, 3.0, 0.5], 4)

    def step(carry: Tensor, batch: Batch, given: Tensor) -> Tensor:
        noise = rng.uniform(batch.key, 4)[: len(batch.real)]
        return given * carry + (noise * (1 + batch.x) * batch.real).sum()

    half = torch.tensor(0.5)

    def once(data: Batches) -> Tensor:
        return data.fold(step, torch.zeros(()), half)

    def thrice(data: Batches) -> Tensor:
        carry = data.epochs(0, 1).fold(step, torch.zeros(()), half)
        carry = data.epochs(1, 3).epochs(1, 2).fold(step, carry, half)
        return data.epochs(2).fold(step, carry, half)

    assert each(found, how, once) == each(found, how, thrice)


def test_no_step_is_computed_that_nobody_takes() -> None:
    """Epoch 1 of clients with 2, 3 and 1 steps an epoch takes 3 calls, not 9; masks come last."""
    found, calls = clients([5, 9, 2], [3.0, 3.0, 3.0], 4), []

    def step(carry: Tensor, seen: Any, given: Any) -> Tensor:
        calls.append(seen)
        return carry + 1

    got = each(found, "together", lambda d: d.epochs(1, 2).fold(step, torch.zeros(())))
    assert got == [2, 3, 1]
    assert len(calls) == 3
    calls.clear()
    got = each(found, "together", lambda d: d.fold(step, torch.zeros(()), batches=4))
    assert got == [1, 2, 1]  # of 6, 9 and 3 minibatches
    assert len(calls) == 2


@pytest.mark.parametrize("how", HOW)
@settings(max_examples=20, deadline=None)
@given(federations, st.integers(1, 4), st.integers(0, 3), st.integers(1, 3))
def test_gradients_are_counted(
    how: How, some: list[tuple[int, float]], batch: int, times: int, m: int
) -> None:
    """Rows times gradients of every fold, those over a part of the data among them."""
    sizes, epochs = [n for n, _ in some], [e for _, e in some]

    def work(data: Batches) -> tuple[Tensor, Tensor, Tensor]:
        data.fold(Take(times), torch.ones(()))
        one = data.gradients
        data.epochs(1, 2).fold(Take(2, passes=3), torch.ones(()))
        two = data.gradients
        data.fold(Take(times), torch.ones(()), batches=m)
        return one, two, data.gradients

    for i, got in enumerate(each(clients(sizes, epochs, batch), how, work)):
        own = expected(sizes[i], epochs[i], batch)
        one = times * sum(s.rows for s in own)
        two = one + 2 * 3 * sum(s.rows for s in own if s.epoch == 1)
        three = two + times * sum(s.rows for group in grouped(own, m) for s in group)
        assert [float(v) for v in got] == pytest.approx([one, two, three])


def test_only_gradients_of_a_step_are_counted() -> None:
    """Not those taken elsewhere meanwhile, and a pass without a gradient costs none."""
    found = clients([5], [1.0], 4)
    with counted() as outside:
        (got,) = each(found, "alone", lambda d: (d.fold(Write(), EMPTY), d.gradients)[1])
        gradient(lambda w: (w * w, ()), torch.ones(()))
    assert float(got) == 0
    assert outside == [1]


def test_a_kind_of_fold_is_recorded_once() -> None:
    """For an equal step and equal shapes, whatever the number of steps and the numbers."""
    recorded = 0

    def note(body: Callable[[], None]) -> Callable[[], None]:
        nonlocal recorded
        recorded += 1
        return body

    graphs, x = Graphs(note), torch.arange(100.0)

    def run(sizes: list[int], step: Any) -> int:
        found = clients(sizes, [2.0] * len(sizes), 2)
        extent = Extent.of(found)

        def folded(repeat: Graphs | None) -> Tensor:
            keys = rng.fold_in(rng.key(0), torch.arange(len(sizes)))
            return vmap(
                lambda d, k: Batches(x, x, d, k, extent, repeat=repeat).fold(step, torch.ones(()))
            )(found, keys)

        before = recorded
        torch.testing.assert_close(folded(graphs), folded(None), rtol=0, atol=0)
        return recorded - before

    assert run([8, 8], Take(1)) == 2  # of eight steps, two by Python; four in one, twice one
    assert run([8, 8], Take(1)) == 1  # from the start on
    assert run([8, 8], Take(1)) == 0
    assert run([8, 8], Take(2)) == 2  # another step
    assert run([8, 8, 8], Take(1)) == 2  # another number of clients in the call
    assert run([8, 5], Take(1)) == 1  # six steps of both: one of the others is masked now
    assert run([5, 8], Take(1)) == 0
    assert run([8, 12], Take(1)) == 3  # room for twelve steps: another kind
    assert run([13, 12], Take(1)) == 2  # from the start on, and one masked step
    assert run([13, 9], Take(1)) == 0
