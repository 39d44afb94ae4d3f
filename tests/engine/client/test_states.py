"""What clients keep: taken and put back by cohort, rolled back, saved by what changed."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import torch

from unalike import tree
from unalike.engine.client.shards import Shards
from unalike.engine.client.states import InMemory, OnDisk, States
from unalike.errors import RunError

N = 7


def first(ids: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"a": ids.float()[:, None].expand(-1, 2), "n": ids}


@pytest.fixture(params=["memory", "disk"])
def states(request: Any, tmp_path: Path) -> States:
    made = InMemory(N) if request.param == "memory" else OnDisk()
    made.attach(Shards(tmp_path / "clients"))
    made.begin(first)
    return made


def put(states: States, ids: list[int], value: float) -> None:
    n = len(ids)
    states.put(
        torch.tensor(ids),
        {"a": torch.full((n, 2), value), "n": torch.arange(n)},
    )


def a(states: States, *ids: int) -> list[float]:
    return states.get(torch.tensor(ids))["a"][:, 0].tolist()


def test_a_state_begins_with_init(states: States) -> None:
    assert a(states, 5, 0, 3) == [5.0, 0.0, 3.0]
    assert states.touched == []


def test_a_stage_that_goes_on_makes_something_of_what_was_kept(
    states: States, tmp_path: Path
) -> None:
    """Of a first state where there was no other; with other leaves; saved, and rolled back."""
    put(states, [1, 4], 0.5)
    states.settle()

    def change(ids: torch.Tensor, kept: Any) -> Any:
        return {"b": 10 * kept["a"][:, :1]}

    states.renew(lambda ids: {"b": torch.zeros(len(ids), 1)}, change, torch.arange(N).split(3))
    wanted = [0.0, 5.0, 20.0, 30.0, 5.0, 50.0, 60.0]
    everybody = torch.arange(N)
    assert states.get(everybody)["b"][:, 0].tolist() == wanted
    assert states.touched == list(range(N))
    assert len(states.trained) == 0
    states.put(torch.tensor([2]), {"b": torch.ones(1, 1)})
    states.roll_back([2])
    assert states.get(everybody)["b"][:, 0].tolist() == wanted
    states.save()
    shards = states.shards  # type: ignore[attr-defined]
    again: States = InMemory(N) if isinstance(states, InMemory) else OnDisk()
    other = Shards(tmp_path / "clients")
    again.attach(other)
    again.begin(lambda ids: {"b": torch.zeros(len(ids), 1)})
    other.load(shards.index()["states"], shards.notes())
    again.restore()
    assert again.get(everybody)["b"][:, 0].tolist() == wanted


def test_states_that_two_threads_make_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While rows grow for one client, another one's state is asked for: neither is lost."""
    states, cat, others = InMemory(N), torch.cat, list["Future[list[float]]"]()
    states.begin(first)
    with ThreadPoolExecutor(1) as pool:

        def slow(parts: list[torch.Tensor]) -> torch.Tensor:
            found = cat(parts)
            if not others:
                others.append(pool.submit(a, states, 2))
                wait(others, 0.2)  # it may not go on before this thread has finished
            return found

        monkeypatch.setattr(torch, "cat", slow)
        assert a(states, 1) == [1.0]
        assert others[0].result() == [2.0]
    assert a(states, 1, 2) == [1.0, 2.0]


def test_what_was_put_comes_back_in_any_order(states: States) -> None:
    put(states, [1, 4], 10.0)
    assert a(states, 4, 2, 1) == [10.0, 2.0, 10.0]
    assert states.get(torch.tensor([4, 1]))["n"].tolist() == [1, 0]
    assert states.touched == [1, 4]


def test_a_cohort_that_diverged_as_a_whole_keeps_what_it_had(states: States) -> None:
    put(states, [1, 4], 10.0)
    put(states, [4, 5], torch.inf)
    assert a(states, 4, 5) == [10.0, 5.0]
    assert states.touched == [1, 4]


def test_a_round_is_rolled_back_by_client(states: States) -> None:
    put(states, [1, 2, 3], 10.0)
    states.settle()
    put(states, [2, 3, 4], 20.0)
    assert states.trained.tolist() == [2, 3, 4]
    states.roll_back([3, 4, 6])
    assert a(states, 1, 2, 3, 4) == [10.0, 20.0, 10.0, 4.0]


def test_two_puts_of_a_round_roll_back_to_before_it(states: States) -> None:
    put(states, [1], 10.0)
    states.settle()
    put(states, [1], 20.0)
    put(states, [1], 30.0)
    states.roll_back([1])
    assert a(states, 1) == [10.0]


def test_a_settled_round_stays(states: States) -> None:
    put(states, [1], 10.0)
    states.settle()
    states.roll_back([1])
    assert a(states, 1) == [10.0]
    assert states.trained.tolist() == []


def test_a_state_that_is_not_finite_is_not_taken(states: States) -> None:
    put(states, [1, 2], 10.0)
    states.settle()
    bad = {"a": torch.tensor([[1.0, torch.nan], [7.0, 7.0]]), "n": torch.zeros(2).long()}
    states.put(torch.tensor([1, 2]), bad)
    assert a(states, 1, 2) == [10.0, 7.0]


def test_nothing_kept_costs_nothing(tmp_path: Path) -> None:
    for made in (InMemory(N), OnDisk()):
        made.attach(Shards(tmp_path / "clients"))
        made.begin(lambda ids: ())
        assert made.get(torch.tensor([1, 2])) == ()
        made.put(torch.tensor([1, 2]), ())
        made.save()
        assert not (tmp_path / "clients").exists()


def saved(states: States, shards: Shards) -> tuple[torch.Tensor, dict[str, str]]:
    states.save()
    index, notes = shards.index()["states"], shards.notes()
    shards.sweep()
    return index, notes


def again(states: States, folder: Path, index: torch.Tensor, notes: dict[str, str]) -> States:
    other: States = InMemory(N) if isinstance(states, InMemory) else OnDisk()
    shards = Shards(folder)
    other.attach(shards)
    other.begin(first)
    shards.load(index, notes)
    other.restore()
    return other


def test_saved_states_come_back(states: States, tmp_path: Path) -> None:
    shards = states.shards  # type: ignore[attr-defined]
    put(states, [1, 2, 5], 10.0)
    states.settle()
    put(states, [2], 20.0)
    index, notes = saved(states, shards)
    put(states, [1, 2], 99.0)  # after the checkpoint, so not in it
    other = again(states, tmp_path / "clients", index, notes)
    assert a(other, 0, 1, 2, 5) == [0.0, 10.0, 20.0, 10.0]
    assert other.touched == [1, 2, 5]


def test_a_save_writes_what_changed(tmp_path: Path) -> None:
    states, shards = InMemory(N), Shards(tmp_path / "clients")
    states.attach(shards)
    states.begin(first)
    put(states, [0, 1, 2, 3, 4, 5], 10.0)
    saved(states, shards)
    before = {p.name: p.stat().st_mtime_ns for p in shards.folder.iterdir()}
    put(states, [3], 20.0)
    saved(states, shards)
    after = {p.name: p.stat().st_mtime_ns for p in shards.folder.iterdir()}
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1
    assert max(p.stat().st_size for p in shards.folder.iterdir() if p.name not in before) < min(
        p.stat().st_size for p in shards.folder.iterdir() if p.name in before
    )


def test_old_versions_do_not_pile_up(states: States) -> None:
    shards = states.shards  # type: ignore[attr-defined]
    for t in range(40):
        put(states, [t % N, (t + 3) % N], float(t))
        states.settle()
        saved(states, shards)
    rows = sum(shards._rows(int(p.stem)) for p in shards.folder.iterdir())
    assert rows <= 4 * N
    last = {(t + k) % N: float(t) for t in range(40) for k in (0, 3)}
    assert a(states, *range(N)) == [last[i] for i in range(N)]


def test_a_new_beginning_forgets_what_was_saved(states: States, tmp_path: Path) -> None:
    """Another stage: its checkpoints hold nothing of the clients of the one before."""
    shards = states.shards  # type: ignore[attr-defined]
    put(states, [1, 2], 10.0)
    saved(states, shards)
    states.begin(lambda ids: {"a": -1.0 * ids[:, None].expand(-1, 2), "n": ids})
    put(states, [2], 20.0)
    other = again(states, tmp_path / "clients", *saved(states, shards))
    assert other.touched == [2]
    assert a(other, 1, 2) == [1.0, 20.0]  # as ``first`` makes it


def test_a_damaged_shard_is_named(states: States, tmp_path: Path) -> None:
    put(states, [1], 10.0)
    index, notes = saved(states, states.shards)  # type: ignore[attr-defined]
    (file,) = (tmp_path / "clients").iterdir()
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(RunError, match=file.name):
        again(states, tmp_path / "clients", index, notes)


def test_memory_grows_with_the_clients_that_took_part() -> None:
    states = InMemory(1_000_000)
    states.begin(lambda ids: {"a": torch.zeros(len(ids), 100)})
    for t in range(5):
        ids = torch.arange(t * 10, t * 10 + 10)
        states.put(ids, tree.map(lambda x: x + 1, states.get(ids)))
        states.settle()
    assert len(states.rows["a"]) <= 200
