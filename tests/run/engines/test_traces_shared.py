"""A step is traced once in a process: other seeds and other runs of its kind use what is there."""

from typing import Any

import numpy as np
import pytest

import unalike
from unalike.engine.compiled import traced as tracing
from unalike.run.engines import choice


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every trace."""
    made, program = list[int](), tracing._program

    def counted(*args: Any) -> Any:
        made.append(1)
        return program(*args)

    monkeypatch.setattr(tracing, "_program", counted)
    monkeypatch.setattr(choice, "ENOUGH", 1)
    return made


def train(seed: int, **settings: Any) -> list[dict[str, Any]]:
    """The records of all rounds."""
    draw = np.random.default_rng(seed)
    x, y = draw.random((80, 5), dtype=np.float32), draw.integers(0, 3, 80)
    data = unalike.federate((x, y), {"name": "iid", "clients": 4}, seed=seed)
    chosen = {"model": {"name": "mlp", "hidden": [6]}, "rounds": 2, **settings}
    return unalike.train(data, seed=seed, progress=False, **chosen).rounds


def test_seeds_share_traces(traces: list[int]) -> None:
    train(0)
    first = len(traces)
    assert first
    train(1)
    train(2)
    assert len(traces) == first
    train(2, model={"name": "mlp", "hidden": [7]})
    assert len(traces) > first


def test_a_shared_trace_gives_the_same_numbers(
    traces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    train(3)
    shared = train(4)
    monkeypatch.setattr(tracing, "PROGRAMS", tracing.Programs())  # as another process would
    before = len(traces)
    assert train(4) == shared
    assert len(traces) > before
