"""Steps that wait until it is known what is wanted of them: the same numbers, with less memory."""

import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from federations import composed, distance, network_task, play, same, sampled

from unalike import tree
from unalike.algorithms.fedavg import FedAvg
from unalike.engine import loop as loops
from unalike.engine.compiled import lazy
from unalike.engine.compiled.scripted import Scripted
from unalike.engine.server.gather import Running
from unalike.engine.simulation import chunks, simulate
from unalike.engine.transport import Replies
from unalike.native import build, program
from unalike.native.program import Native

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C++ compiler")
FAST: dict[str, Any] = {"traced": True, "native": True, "workers": 2}


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays a recipe with steps that do not wait."""

    def refused(*args: Any) -> Any:
        raise lazy.Wanted

    def played(*args: Any, **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(lazy.Lazy, "__call__", refused)
            return play(*args, **FAST, **options)

    return played


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Replies]:
    """Every answer that is summed as it comes from here on: all cohorts are too large to hold."""
    found, take = list[Replies](), Running.take

    def seen(self: Running, part: Replies) -> None:
        found.append(part)
        take(self, part)

    monkeypatch.setattr(loops, "HELD", 0)
    monkeypatch.setattr(chunks, "FEW_BYTES", 0)
    monkeypatch.setattr(Running, "take", seen)
    return found


@pytest.mark.parametrize("epochs", [1.0, 0.4, 2.5])
@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedadam", "lg_fedavg", "fednova"])
def test_bit_for_bit(method: str, epochs: float, never: Any) -> None:
    """As long as uploads are held: differences are made by the same subtraction."""
    task, data = network_task("dense")
    recipe = composed(task, data, method, **sampled(1.0, epochs))
    fast, plain = play(recipe, data, 2, **FAST), never(recipe, data, 2)
    assert list(fast.simulation.lazy.values()) == [True]
    assert list(plain.simulation.lazy.values()) == [False]
    assert same(fast.states[-1], plain.states[-1])
    assert same(fast.kept[-1], plain.kept[-1])
    assert fast.rounds[-1].worked == plain.rounds[-1].worked


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_steps_that_are_not_compiled_are_shared_out_as_before(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions are traced alone: calls are the workers', and none is computed twice."""
    threads, run = list[str](), Scripted.__call__

    def seen(self: Scripted, *args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return run(self, *args)

    monkeypatch.setattr(simulate, "LITTLE_BYTES", 0)
    task, data = network_task("conv")
    recipe = composed(task, data, method, **sampled(1.0))
    plain = {"traced": True, "workers": 2}
    for how in (plain, FAST):  # every shape is traced
        play(recipe, data, 1, **how)
    monkeypatch.setattr(Scripted, "__call__", seen)
    play(recipe, data, 2, **plain)
    before = len(threads)
    fast = play(recipe, data, 2, **FAST)
    assert list(fast.simulation.lazy.values()) == [False]
    assert len(threads) == 2 * before
    assert threading.current_thread().name not in threads


def test_nobody_holds_a_model_that_nobody_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only differences leave a program, or one sum of each group."""
    left, asked = Native.left, list[tuple[bool, bool]]()

    def seen(self: Native, *args: Any) -> Any:
        ways, summing = args[4], args[5] if len(args) > 5 else None
        asked.append((any(w.itself for w in ways), summing is not None))
        return left(self, *args)

    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    play(recipe, data, 1, **FAST)
    monkeypatch.setattr(Native, "left", seen)
    play(recipe, data, 3, **FAST)
    assert set(asked[-2:]) == {(False, False)}
    monkeypatch.setattr(loops, "HELD", 0)
    play(recipe, data, 3, **FAST)
    assert set(asked[-2:]) == {(False, True)}


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedadam"])
def test_a_sum_is_what_holding_gives(method: str, taken: list[Replies], never: Any) -> None:
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, method, **sampled(1.0))
    summed = play(recipe, data, 3, chunk=2, **FAST)
    assert not summed.loop.holds
    assert taken
    assert all(part.totals for part in taken)
    plain = never(recipe, data, 3, chunk=2)
    assert distance(summed.states[-1].stack, plain.states[-1].stack) < 1e-13
    before, after = plain.rounds[-1], summed.rounds[-1]
    assert before.traffic == after.traffic
    assert before.worked == after.worked
    assert torch.equal(before.weights, after.weights)


@pytest.mark.parametrize("method", ["moon", "apfl", "pfedme", "ditto"])
def test_a_client_that_keeps_its_model_is_in_a_sum_too(
    method: str, taken: list[Replies], never: Any
) -> None:
    """Its upload counts in the same order as that of a client that keeps nothing."""
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, method, **sampled(1.0))
    summed = play(recipe, data, 3, chunk=2, **FAST)
    assert taken
    assert all(part.totals for part in taken)
    plain = never(recipe, data, 3, chunk=2)
    assert distance(summed.states[-1].stack, plain.states[-1].stack) < 1e-13
    for i, mine in plain.kept[-1].items():
        assert distance(mine, summed.kept[-1][i]) < 1e-13


def test_a_sum_does_not_depend_on_the_workers(taken: list[Replies]) -> None:
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    one = play(recipe, data, 3, chunk=2, traced=True, native=True, workers=1)
    assert same(one.states[-1], play(recipe, data, 3, chunk=2, **FAST).states[-1])
    assert all(part.totals for part in taken)


@pytest.mark.parametrize(("alone", "long"), [(0, 1 << 40), (0, 0), (1 << 40, 1 << 40)])
def test_whoever_computes(
    alone: int, long: int, never: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workers with or without the thread that asks, or that thread alone."""
    monkeypatch.setattr(program, "ALONE", alone)
    monkeypatch.setattr(program, "LONG", long)
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    threads, run = set[str](), Native._run

    def seen(self: Native, *args: Any) -> None:
        crew = args[3]

        def noted(f: Any, here: bool) -> list[int]:
            def one() -> int:
                threads.add(threading.current_thread().name)
                return int(f())

            assert here == bool(long)
            return list(crew(one, here))

        run(self, *args[:3], None if crew is None else noted)

    monkeypatch.setattr(Native, "_run", seen)
    found = play(recipe, data, 2, **FAST)
    assert bool(threads) == (alone == 0)
    assert (threading.current_thread().name in threads) == (alone == 0 and long > 0)
    assert same(found.states[-1], never(recipe, data, 2).states[-1])


@pytest.mark.parametrize("large", [False, True])
def test_the_first_round_of_a_process_is_like_any_other(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was interrupted goes on bit for bit, though the first call is computed twice."""
    if large:
        monkeypatch.setattr(loops, "HELD", 0)
        monkeypatch.setattr(chunks, "FEW_BYTES", 0)
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    whole = play(recipe, data, 3, chunk=2, **FAST)
    again = play(recipe, data, 0, chunk=2, **FAST)
    state = whole.states[1]
    for t in (1, 2):
        state, report = again.loop.advance(state, t)
        assert report.worked == whole.rounds[t].worked
    assert same(state, whole.states[-1])


def test_weights_that_depend_on_reports_are_not_known_ahead(taken: list[Replies]) -> None:
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, "fednova", **sampled(1.0))
    summed = play(recipe, data, 2, chunk=2, **FAST)
    plain = play(recipe, data, 2, chunk=2, engine="sequential")
    assert distance(summed.states[-1].stack, plain.states[-1].stack) < 1e-10


@pytest.mark.parametrize("times", [1e3, 1e18, float("nan")])
def test_a_broken_client_is_in_no_sum(times: float, taken: list[Replies], never: Any) -> None:
    """Its group is computed again with every upload by itself, which the guard then sees."""
    task, data = network_task("dense", torch.float64)
    begin, end = data.rows.start[3:5]
    data.examples.x[begin:end] *= times
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    found = play(recipe, data, 2, chunk=2, **FAST)
    assert {not part.totals for part in taken} == {True, False}
    plain = never(recipe, data, 2, chunk=2)
    assert [r.rejected for r in found.rounds] == [r.rejected for r in plain.rounds]
    assert any(3 in r.rejected for r in found.rounds) or times == 1e3
    assert distance(found.states[-1].stack, plain.states[-1].stack) < 1e-12


def test_a_group_that_is_computed_again_keeps_its_models(
    taken: list[Replies], never: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum is given up at the first upload that is too long; those behind it keep theirs too."""
    monkeypatch.setattr(chunks, "GROUPS", 1)
    task, data = network_task("dense", torch.float64)
    begin, end = data.rows.start[3:5]
    data.examples.x[begin:end] *= 1e3
    recipe = composed(task, data, "moon", **sampled(1.0))
    found, plain = play(recipe, data, 2, chunk=6, **FAST), never(recipe, data, 2, chunk=6)
    assert any(not part.totals for part in taken)
    for i, mine in plain.kept[-1].items():
        assert distance(mine, found.kept[-1][i]) < 1e-12


@dataclass(frozen=True)
class Reading(FedAvg):
    """Does something else with its weights, in a way that PyTorch tells nobody of, or openly."""

    hidden: bool = True

    def client(self, *args: Any, **more: Any) -> Any:
        up, stats, kept = super().client(*args, **more)
        if self.hidden:
            half = torch.func.vmap(lambda x: x / 2)
            return up._replace(delta={k: half(v) for k, v in up.delta.items()}), stats, kept
        return tree.scale(0.5, up), stats, kept


@pytest.mark.parametrize("hidden", [True, False])
def test_whoever_reads_the_weights_does_not_wait(hidden: bool) -> None:
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    inner = recipe.algorithm
    mine = Reading(**{f: getattr(inner, f) for f in inner.__dataclass_fields__}, hidden=hidden)
    recipe = replace(recipe, algorithm=mine)
    found = play(recipe, data, 2, **FAST)
    assert list(found.simulation.lazy.values()) == [False]
    plain = play(recipe, data, 2, engine="sequential")
    assert distance(found.states[-1].stack, plain.states[-1].stack) < 1e-10
