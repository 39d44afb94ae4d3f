"""Several processes that share a run's clients play the rounds that one would play."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from federations import Data, Played, distance, federation, kept_by, same, walk
from test_process_parity import FEATURES, built, raw

from unalike import tree
from unalike.algorithms.table import METHODS
from unalike.engine.simulation import distributed
from unalike.engine.simulation.distributed import Distributed
from unalike.engine.simulation.simulate import Simulation
from unalike.engine.transport import Transport
from unalike.errors import RunError
from unalike.tree import Tree

SIZE = 2


@dataclass
class Table:
    """Where the processes of a test, which are threads, lay what they say."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(SIZE, timeout=60))
    laid: dict[int, Any] = field(default_factory=dict)
    exchanged: int = 0
    summed: int = 0

    def lay(self, rank: int, what: Any) -> list[Any]:
        self.laid[rank] = what
        self.barrier.wait()
        found = [self.laid[r] for r in range(SIZE)]
        self.barrier.wait()
        return found


@dataclass
class Thread:
    """One of them."""

    rank: int
    table: Table
    size: int = SIZE
    local: int = SIZE

    def exchange(self, raw: bytes) -> list[bytes]:
        self.table.exchanged += len(raw)
        return self.table.lay(self.rank, raw)

    def sum(self, part: Tree) -> Tree:
        self.table.summed += tree.size_bytes(part)
        first, *others = self.table.lay(self.rank, part)
        for other in others:
            first = tree.add(first, other)
        return first


def shared_by_two(name: str, data: Data, **options: Any) -> tuple[list[Played], Table]:
    stages, table = built(raw(name)), Table()

    def one(rank: int) -> Played:
        def around(simulation: Simulation) -> Transport:
            return Distributed(simulation, Thread(rank, table))

        try:
            return walk(stages, data, around=around, engine="sequential", **options)
        except BaseException:
            table.barrier.abort()
            raise

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(one, range(SIZE))), table


def numbers(played: Played) -> Tree:
    return {"states": played.states, "kept": kept_by(played.simulation)}


def data_of(name: str) -> Data:
    data = federation(FEATURES)
    if name == "pooled":
        return Data(data.examples, type(data.rows)(data.rows.order, data.rows.start[[0, -1]]))
    return data


@pytest.mark.parametrize("name", METHODS)
def test_two_processes_play_what_one_plays(name: str) -> None:
    """Bit for bit, and both hold all of it."""
    data = data_of(name)
    alone = walk(built(raw(name)), data, engine="sequential")
    both, _ = shared_by_two(name, data)
    for played in both:
        assert same(numbers(played), numbers(alone))
        for one, other in zip(played.rounds, alone.rounds, strict=True):
            assert torch.equal(one.ids, other.ids)
            assert torch.equal(one.weights, other.weights)
            assert one.traffic == other.traffic
            assert one.worked == pytest.approx(other.worked, rel=1e-6)


@pytest.mark.parametrize("name", ["fedbn", "lg_fedavg", "ditto"])
def test_two_processes_go_on_with_what_clients_kept(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process has the states of all clients, and makes the same of them."""
    monkeypatch.setattr(distributed, "LARGE", 1)
    data, table = data_of(name), Table()
    stages = built({**raw(name), "rounds": 4, "plus": [{"name": "finetune", "rounds": 2}]})

    def one(rank: int) -> Played:
        return walk(
            stages, data, around=lambda s: Distributed(s, Thread(rank, table)), engine="sequential"
        )

    with ThreadPoolExecutor(SIZE) as pool:
        both = list(pool.map(one, range(SIZE)))
    alone = walk(stages, data, engine="sequential")
    assert same(numbers(both[0]), numbers(both[1]))
    for i, mine in kept_by(alone.simulation).items():
        assert distance(mine, kept_by(both[0].simulation)[i]) < 1e-6


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedadam", "ditto", "fedprox"])
def test_large_uploads_are_summed_where_they_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "LARGE", 1)
    data = data_of(name)
    alone = walk(built(raw(name)), data, engine="sequential")
    both, table = shared_by_two(name, data)
    assert same(numbers(both[0]), numbers(both[1]))
    assert distance(alone.states[-1].stack, both[0].states[-1].stack) < 1e-6
    upload = tree.size_bytes(alone.x) * (2 if name == "scaffold" else 1)
    assert table.summed == SIZE * len(alone.rounds) * upload  # one upload a round from each


def test_a_median_needs_all_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "LARGE", 1)
    both, table = shared_by_two("median", data_of("median"))
    assert table.summed == 0
    assert same(
        numbers(both[0]),
        numbers(walk(built(raw("median")), data_of("median"), engine="sequential")),
    )


def test_all_hear_of_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    data, real = data_of("fedavg"), Simulation.train

    def failing(self: Simulation, t: int, plan: Any, *given: Any) -> Any:
        if t == 1 and bool((plan.ids % SIZE == 1).any()):
            raise ValueError("client code broke")
        return real(self, t, plan, *given)

    monkeypatch.setattr(Simulation, "train", failing)
    stages, table, said = built(raw("fedavg")), Table(), dict[int, Exception]()

    def one(rank: int) -> None:
        try:
            walk(
                stages,
                data,
                around=lambda s: Distributed(s, Thread(rank, table)),
                engine="sequential",
            )
        except Exception as error:
            said[rank] = error

    with ThreadPoolExecutor(SIZE) as pool:
        list(pool.map(one, range(SIZE)))
    assert isinstance(said[1], ValueError)
    assert isinstance(said[0], RunError)
    assert "process 1 of this run stopped: client code broke" in str(said[0])


def test_a_process_without_clients_in_a_round_keeps_up() -> None:
    settings = {**raw("scaffold"), "participation": {"number": 1}, "rounds": 4}
    stages, data, table = built(settings), data_of("scaffold"), Table()

    def one(rank: int) -> Played:
        return walk(
            stages, data, around=lambda s: Distributed(s, Thread(rank, table)), engine="sequential"
        )

    with ThreadPoolExecutor(SIZE) as pool:
        both = list(pool.map(one, range(SIZE)))
    alone = walk(stages, data, engine="sequential")
    assert all(same(numbers(p), numbers(alone)) for p in both)
    assert torch.isfinite(both[0].x[next(iter(both[0].x))]).all()
