"""Threads of a round: put aside while clients train, then used, without another number."""

import threading

import pytest
import torch
from federations import composed, network_task, play, same, sampled

from unalike.engine import threads
from unalike.engine.graph import combine
from unalike.engine.server import single_client


@pytest.fixture(autouse=True)
def as_before():  # type: ignore[no-untyped-def]
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_threads_are_put_aside_for_a_while() -> None:
    torch.set_num_threads(2)
    with threads.lone():
        assert torch.get_num_threads() == 1
        with threads.lone():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_what_was_put_aside_computes() -> None:
    torch.set_num_threads(2)
    here, names = threading.get_ident(), list[int]()
    threads.each(lambda _: names.append(threading.get_ident()), range(3))
    assert set(names) == {here}
    with threads.lone():
        threads.each(lambda _: names.append(threading.get_ident()), range(3))
    assert len(names) == 6
    assert here not in names[3:]


def test_a_mistake_is_heard_of() -> None:
    def wrong(_: int) -> None:
        raise ValueError("nine")

    torch.set_num_threads(2)
    with threads.lone(), pytest.raises(ValueError, match="nine"):
        threads.each(wrong, range(2))


def test_numbers_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers step and hear their neighbours in many small pieces."""
    monkeypatch.setattr(single_client, "AT_ONCE", 1)
    monkeypatch.setattr(combine, "COLUMNS", 2)
    monkeypatch.setattr(combine, "DENSE", 0)
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", topology="ring", **sampled(0.7))

    def played(count: int) -> object:
        torch.set_num_threads(count)
        with threads.lone():
            return play(recipe, data, 3, traced=True, workers=count).states[-1].stack

    assert same(played(1), played(2))
