"""A model on many rows: in pieces, on any number of threads, the same numbers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from federations import network_task

from unalike.engine.evaluation import judging
from unalike.engine.evaluation.judging import outputs


@pytest.mark.parametrize("size", [7, 1000])
def test_pieces_are_the_whole(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "SOME", size)
    task, data = network_task("dense")
    w, x = task.network.given(), data.examples.x
    noise = torch.zeros(len(x), task.draws)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: len(x) // 2]
    threads: set[bool] = set()
    with ThreadPoolExecutor(2) as pool:

        def each(f: Any, items: list[Any]) -> list[Any]:
            threads.add(True)
            return list(pool.map(f, items))

        whole = outputs(task, w, x, noise)
        assert whole.grad_fn is None
        torch.testing.assert_close(whole, task.outputs(w, x, noise).detach())
        torch.testing.assert_close(outputs(task, w, x, noise, rows), whole[rows])
        alone, shared = outputs(task, w, x, noise, rows), outputs(task, w, x, noise, rows, each)
        assert torch.equal(alone, shared)
        assert shared.grad_fn is None
        assert torch.equal(outputs(task, w, x, noise, each=each), whole)
    assert bool(threads) == (size < len(rows))


def test_no_rows() -> None:
    task, data = network_task("dense")
    none = torch.zeros(0, dtype=torch.long)
    noise = torch.zeros(len(data.examples.x), task.draws)
    assert outputs(task, task.network.given(), data.examples.x, noise, none).shape[0] == 0
