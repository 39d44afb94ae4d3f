"""Minibatches: every example once in an epoch, in an order that is the client's own."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap

from unalike import rng
from unalike.batches import Batch, Batches, average
from unalike.draws import Draw, Extent, alone, draw

sizes_ = st.lists(st.integers(1, 40), min_size=1, max_size=6)


def drawn(
    sizes: list[int],
    epochs: list[float] | float = 1.0,
    batch_size: int = 8,
    budget: list[int] | None = None,
    seed: int = 0,
    **more: Tensor,
) -> Draw:
    """The minibatches of clients that own consecutive rows, numbered from 1000."""
    n = torch.tensor(sizes)
    each = [epochs] * len(sizes) if isinstance(epochs, float) else epochs
    return draw(
        1000 + torch.arange(int(n.sum())),
        n,
        n.cumsum(0) - n,
        budget=n if budget is None else torch.tensor(budget),
        epochs=torch.tensor(each, dtype=torch.float64),
        batch_size=batch_size,
        keys=rng.fold_in(rng.key(seed), torch.arange(len(sizes))),
        **more,
    )


def sequence(found: Draw, i: int) -> list[int]:
    """The rows a client sees, in order."""
    return found.row[i][found.real[i]].tolist()


def own(sizes: list[int], i: int) -> list[int]:
    """The rows a client owns."""
    first = 1000 + sum(sizes[:i])
    return list(range(first, first + sizes[i]))


@given(sizes_, st.integers(1, 12), st.integers(1, 3))
def test_every_epoch_visits_every_example_once(sizes: list[int], batch: int, epochs: int) -> None:
    """And no other client's."""
    found = drawn(sizes, float(epochs), batch)
    for i, n in enumerate(sizes):
        seen = sequence(found, i)
        for e in range(epochs):
            assert sorted(seen[e * n : (e + 1) * n]) == own(sizes, i)
        assert len(seen) == epochs * n


@given(sizes_, st.floats(0.05, 3.2), st.integers(1, 12))
def test_shape_of_the_steps(sizes: list[int], epochs: float, batch: int) -> None:
    """Real rows first, real steps first, each epoch ends in a short batch, padding is one's own."""
    found = drawn(sizes, epochs, batch)
    for i, n in enumerate(sizes):
        real = found.real[i]
        counts = real.sum(1).tolist()
        total = max(1, int(epochs) * n + int((epochs - int(epochs)) * n + 0.5))
        want = [min(batch, n - b) for _ in range(int(epochs) + 1) for b in range(0, n, batch)]
        kept, left = [], total
        for w in want:
            kept.append(min(w, left))
            left -= kept[-1]
        steps = [c for c in kept if c]
        assert counts[: len(steps)] == steps
        assert not any(counts[len(steps) :])
        assert torch.equal(real, real.long().sort(1, descending=True).values.bool())
        assert set(found.row[i].flatten().tolist()) <= set(own(sizes, i))


@pytest.mark.parametrize(
    ("epochs", "n", "examples"),
    [
        (0.5, 10, 5),
        (1.3, 5, 7),
        (2.25, 8, 18),
        (0.01, 10, 1),
        (1.0, 1, 1),
        (0.3, 1, 1),
        (10.667, 3, 32),
    ],
)
def test_fractions_of_an_epoch(epochs: float, n: int, examples: int) -> None:
    """Whole passes, then that share of one more, to the nearest example; never nothing."""
    found = drawn([n], epochs)
    seen = sequence(found, 0)
    assert len(seen) == examples
    last = seen[int(epochs) * n :]
    assert len(set(last)) == len(last)


def test_many_epochs_lose_no_example_to_rounding() -> None:
    """More examples than single precision can count."""
    from unalike.draws import work

    budget, epochs = torch.tensor([7_000_001]), torch.tensor([7.0], dtype=torch.float64)
    assert work(budget, epochs).tolist() == [49_000_007]


def test_orders_differ_by_epoch_client_and_key() -> None:
    """And agree with themselves."""
    found = drawn([30, 30], 2.0)
    a, b = sequence(found, 0), [r - 30 for r in sequence(found, 1)]
    assert a[:30] != a[30:]
    assert a != b
    assert a == sequence(drawn([30, 30], 2.0), 0)
    assert a != sequence(drawn([30, 30], 2.0, seed=1), 0)


def test_an_order_depends_on_the_clients_own_key_alone() -> None:
    """Not on who else is in the cohort, not on the batch size, not on the number of epochs."""
    alone = sequence(drawn([13]), 0)
    assert sequence(drawn([13, 40, 2]), 0) == alone
    assert sequence(drawn([13], batch_size=3), 0) == alone
    assert sequence(drawn([13], 3.0), 0)[:13] == alone


def test_every_place_is_equally_likely() -> None:
    """Which example comes first, over many keys."""
    keys = rng.fold_in(rng.key(4), torch.arange(3000))
    n = torch.full((3000,), 5)
    found = draw(
        torch.arange(5),
        n,
        torch.zeros_like(n),
        budget=n,
        epochs=torch.ones(3000),
        batch_size=5,
        keys=keys,
    )
    counts = torch.bincount(found.row[:, 0, 0])
    assert counts.min() > 500
    assert counts.max() < 700


def test_a_longer_list_with_the_old_budget() -> None:
    """A client with 6 examples and 4 repeats: 6 an epoch, going through all 10 before any again."""
    found = drawn([10], 2.5, batch_size=4, budget=[6])
    seen = sequence(found, 0)
    assert len(seen) == 15
    assert sorted(seen[:10]) == own([10], 0)
    assert len(set(seen[10:])) == 5
    assert found.real[0].sum(1).tolist() == [4, 2, 4, 2, 3]


def test_altered_rows_are_marked_wherever_they_come() -> None:
    """The mark belongs to the place in the list, not to the example."""
    altered = torch.tensor([False] * 6 + [True] * 4)
    found = drawn([10], 2.0, altered=altered)
    assert torch.equal(found.altered[found.real], found.row[found.real] >= 1006)
    assert not found.altered[~found.real].any()


class Doubled:
    """Marked rows are doubled."""

    def apply(self, x: Tensor, altered: Tensor, key: Tensor) -> Tensor:
        """Twice as much."""
        return torch.where(altered, 2 * x, x)


def work_of(found: Draw, i: int, x: Tensor, *, trim: bool) -> Batches:
    """One client's minibatches, trimmed or padded."""
    one, extent = Draw(*(f[i] for f in found)), Extent.of(found)
    if trim:
        one, extent = alone(found)[i]
    return Batches(x, x, one, rng.key(1), extent, transform=Doubled())


@pytest.mark.parametrize("trim", [True, False])
def test_folding_skips_padding(trim: bool) -> None:
    """Padded steps leave the carry alone, whatever the step would have made of it."""
    x = torch.arange(1030.0)
    altered = torch.zeros(30, dtype=torch.bool)
    altered[2] = True
    found = drawn([5, 25], batch_size=4, altered=altered)

    def step(carry: tuple[Tensor, Tensor], batch: Batch, given: Any) -> tuple[Tensor, Tensor]:
        total, steps = carry
        bad = torch.where(batch.real.any(), 0.0, torch.nan)
        return total + (batch.x * batch.real).sum() + bad, steps + 1

    zero = (torch.zeros(()), torch.zeros(()))
    total, steps = work_of(found, 0, x, trim=trim).fold(step, zero)
    assert float(total) == sum(range(1000, 1005)) + 1002
    assert float(steps) == 2


def test_folding_in_vmap_equals_folding_alone() -> None:
    """Random draws of a step included."""
    x = torch.rand(1030)
    found = drawn([5, 25], batch_size=4)

    def step(carry: Tensor, batch: Batch, given: Any) -> Tensor:
        noise = rng.uniform(batch.key, len(batch.real))
        return carry + (batch.x * noise * batch.real).sum()

    def one(d: Draw) -> Tensor:
        return Batches(x, x, d, rng.key(1), Extent.of(found)).fold(step, torch.zeros(()))

    got = vmap(one)(found)
    want = [work_of(found, i, x, trim=True).fold(step, torch.zeros(())) for i in (0, 1)]
    assert torch.allclose(got, torch.stack(want))


def test_average_is_over_examples_not_over_batches() -> None:
    """A short batch counts by its rows."""
    x = torch.arange(1011.0)
    found = drawn([11], batch_size=4)
    for trim in (True, False):
        got = average(lambda c, b: c * b.x, 2.0, work_of(found, 0, x, trim=trim))
        assert float(got) == pytest.approx(2010.0)


def test_steps_have_different_keys_that_a_method_cannot_meet() -> None:
    """A method folds 0, 1, 2 ... into the client's key; no step has one of those."""
    found = drawn([40], batch_size=4)
    work = work_of(found, 0, torch.zeros(1040), trim=True)
    steps = {int(work.batch(t).key) for t in range(10)}
    methods = {int(rng.fold_in(rng.key(1), i)) for i in range(100)}
    assert len(steps) == 10
    assert not steps & methods
