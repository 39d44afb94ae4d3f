"""Traced steps: Python is out of the loop after the first round, and nothing else changes."""

import threading
import time
from typing import Any, NamedTuple

import pytest
import torch
from federations import CLASSES, composed, distance, federation, network_task, play, same, sampled
from torch import Tensor, nn

from unalike import rng
from unalike.batches import Batch, Batches
from unalike.draws import alone, draw
from unalike.engine.compiled import scripted, traced
from unalike.engine.compiled.placing import Place
from unalike.engine.compiled.scripted import Scripted
from unalike.engine.compiled.traced import Traced
from unalike.engine.simulation import simulate as simulating
from unalike.engine.simulation import vmapped as calling
from unalike.errors import RunWarning, warn_once
from unalike.network import Network
from unalike.recipe import client
from unalike.tasks import MultiClass

X = torch.arange(1.0, 13.0, dtype=torch.float64)


def minibatches(traced: Traced | None, size: int = 12, batch: int = 4) -> Batches:
    """One client with the rows 1, 2, ... in a random order."""
    n = torch.tensor([size])
    drawn = draw(
        torch.arange(12),
        n,
        torch.zeros_like(n),
        budget=n,
        epochs=torch.ones(1, dtype=torch.float64),
        batch_size=batch,
        keys=rng.key(0)[None],
    )
    ((own, extent),) = alone(drawn)
    return Batches(X, X, own, rng.key(1), extent, repeat=traced)


class Walk(NamedTuple):
    """Where a walk is and where it was a step ago."""

    here: Tensor
    before: Tensor
    total: Tensor


def step(at: Walk, batch: Batch, given: Tensor) -> Walk:
    """Go on by the sum of the rows times what is given."""
    moved = (batch.x * batch.real).sum() * given
    return Walk(at.here + moved, at.here, at.total + batch.real.sum())


def begin() -> Walk:
    return Walk(
        torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64), torch.tensor(0)
    )


@pytest.mark.parametrize("size", [12, 10, 3])
def test_what_a_step_hands_on_is_not_written_over(size: int) -> None:
    """The place before is that of one step ago, though the place itself may be changed at once."""
    traced, given = Traced(), torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    found = minibatches(traced, size).fold(step, begin(), given)
    looped = minibatches(None, size).fold(step, begin(), given)
    assert not traced.refusals
    assert int(found.total) == size
    rows, real = minibatches(None, size).draw[:2]
    torch.testing.assert_close(found.here, given * X[rows[real]].sum())
    torch.testing.assert_close(found, looped, rtol=0, atol=1e-12)


def test_what_comes_in_is_left_as_it_was() -> None:
    """Also where one tensor is carried, given, and written into by every step."""
    one = torch.ones(3, dtype=torch.float64)
    at = Walk(one, one, torch.tensor(0))
    found = minibatches(Traced()).fold(step, at, one)
    assert torch.equal(one, torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(found.here, one + X.sum())


def test_results_can_be_differentiated() -> None:
    """No trace of how they were made is left on them."""
    end = minibatches(Traced()).fold(step, begin(), torch.ones(3, dtype=torch.float64))
    for leaf in (end.here, end.before):
        leaf.detach().requires_grad_().square().sum().backward()
        leaf.add_(1)


@pytest.mark.parametrize("method", ["fedavg", "aaggff_d", "superfed_mm"])
def test_no_python_after_the_first_round(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ragged clients, all in the first round: no tape and no trace after it, nor in later runs."""
    made, tapes = [0], [0]
    program, grad = traced.trace, torch.autograd.grad

    def counted(*args: Any) -> Any:
        made[0] += 1
        return program(*args)

    def differentiated(*args: Any, **more: Any) -> Any:
        tapes[0] += 1
        return grad(*args, **more)

    monkeypatch.setattr(traced, "trace", counted)
    monkeypatch.setattr(torch.autograd, "grad", differentiated)
    task, data = network_task("dense")
    recipe = composed(task, data, method, **sampled(1.0, 1.5))
    play(recipe, data, 1, engine="sequential", traced=True)
    first = made[0], tapes[0]
    assert first[0] <= 8  # few shapes of minibatches, though no two clients are alike
    play(recipe, data, 4, engine="sequential", traced=True)
    assert (made[0], tapes[0]) == first
    play(recipe, data, 2, engine="vectorized", traced=True, workers=2)
    assert (made[0], tapes[0]) == first


def test_python_runs_once_for_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each client, nor for each worker: they share the loop of one call."""
    calls, loops = [0], [0]
    program = scripted.Scripted.__call__

    def called(*args: Any) -> Any:
        calls[0] += 1
        return client(*args)

    def looped(*args: Any) -> Any:
        loops[0] += 1
        return program(*args)

    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    play(recipe, data, 1, batch_size=2, traced=True, workers=2)  # every shape is traced
    monkeypatch.setattr(calling, "client", called)
    monkeypatch.setattr(scripted.Scripted, "__call__", looped)
    rounds = 3
    play(recipe, data, rounds, batch_size=2, traced=True, workers=2)
    assert calls[0] == loops[0] == rounds
    assert data.n_clients > 2
    monkeypatch.setattr(simulating, "LITTLE_BYTES", 0)  # larger models: a call for each worker
    play(recipe, data, rounds, batch_size=2, traced=True, workers=2)
    assert calls[0] == loops[0] == 3 * rounds


@pytest.mark.parametrize("network", ["dense", "conv"])
def test_whoever_computes(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call is looped over by all workers, or by one where waking others takes longer."""
    task, data = network_task(network)
    recipe, threads = composed(task, data, "fedavg", **sampled(1.0)), list[set[str]]()
    taken = Place.taken

    def seen(place: Place) -> Tensor:
        threads[-1].add(threading.current_thread().name)
        time.sleep(1e-3)  # or one may be done before the other is awake
        return taken(place)

    monkeypatch.setattr(Place, "taken", seen)
    states = []
    for seconds, little in ((1e9, 1 << 30), (0.0, 1 << 30), (0.0, 0)):
        threads.append(set())
        monkeypatch.setattr(scripted, "ALONE", seconds)
        monkeypatch.setattr(simulating, "LITTLE_BYTES", little)
        states.append(play(recipe, data, 2, traced=True, workers=2).states[-1])
    own = {threading.current_thread().name}
    assert threads[0] == own
    assert own < threads[1]
    assert not own & threads[2]
    assert all(same(states[0], other) for other in states[1:])


def test_what_a_step_costs_is_known_beforehand() -> None:
    """About: a loop over few small steps is not worth waking anybody for, one over many is."""
    costs = []
    for hidden in (8, 512):
        network = nn.Sequential(nn.Flatten(), nn.Linear(16, hidden), nn.Linear(hidden, CLASSES))
        data = federation(sizes=[12] * 2)
        with pytest.MonkeyPatch.context() as patch:
            made = traced.Programs()
            patch.setattr(traced, "PROGRAMS", made)
            recipe = composed(MultiClass(Network(network)), data, "fedavg")
            play(recipe, data, 1, traced=True)
        costs += [p.run.cost for p in made._found.values() if isinstance(p.run, Scripted)]  # type: ignore[union-attr]
    small, large = costs
    assert 5e-6 < small < 5e-5
    assert large > small + 1e-5


def test_programs_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were not used for longest are made again when they are asked for."""
    monkeypatch.setattr(traced, "MOST", 2)
    programs, made = traced.Programs(), list[str]()

    def ask(kind: str) -> None:
        def make() -> Any:
            made.append(kind)

        programs(kind, make)

    for kind in "abacab":
        ask(kind)
    assert "".join(made) == "abcb"


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_it_can_be_repeated_bit_for_bit(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another trace of the same step computes the same in the same order."""
    task, data = network_task("conv")
    recipe = composed(task, data, "fedavg", **sampled(0.5, 1.5))

    def played(workers: int) -> Any:
        monkeypatch.setattr(traced, "PROGRAMS", traced.Programs())  # as another process would
        return play(recipe, data, 3, engine=engine, traced=True, workers=workers).x

    assert same(played(1), played(2))


class Moody(nn.Module):
    """Has a branch that depends on a value."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        out = self.inner(x.flatten(1))
        return out if bool(out.sum() > 0) else 2 * out


def test_what_cannot_be_traced_runs_as_ever_and_says_so() -> None:
    task, data = MultiClass(Network(Moody())), federation()
    recipe = composed(task, data, "fedavg", **sampled(0.5))
    warn_once.cache_clear()
    with pytest.warns(RunWarning, match=r"cannot be traced.*engine\.traced = false"):
        played = play(recipe, data, 2, engine="sequential", traced=True)
    plain = play(recipe, data, 2, engine="sequential")
    assert same(played.x, plain.x)
    many = play(recipe, data, 2, engine="vectorized", traced=True, workers=2)  # vmap cannot branch
    assert distance(many.x, plain.x) < 1e-6


def test_steps_that_are_never_the_same_are_not_traced() -> None:
    """One that cannot be hashed cannot be found again."""
    warn_once.cache_clear()
    traced = Traced(said=False)

    class Loose:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, at: Walk, batch: Batch, given: Tensor) -> Walk:
            return step(at, batch, given)

    ones = torch.ones(3, dtype=torch.float64)
    found = minibatches(traced).fold(Loose(), begin(), ones)
    assert traced.refusals == ["it is not the same from one round to the next"]
    assert distance(found, minibatches(None).fold(step, begin(), ones)) == 0
