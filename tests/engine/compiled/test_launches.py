"""What a round costs, counted: a clock in a test would say more about the machine.

An operation that computes is one kernel on a GPU and one piece of memory; views are neither.
"""

from collections import Counter
from typing import Any

import pytest
from federations import composed, federation, network_task, play
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from unalike.engine.compiled.scripted import Scripted

VIEWS = {"view", "_unsafe_view", "expand", "transpose", "t", "permute", "select", "slice", "split"}
VIEWS |= {"unsqueeze", "squeeze", "detach", "alias", "as_strided", "unbind", "lift_fresh"}

# Operations of one more local step of all clients, and of a round without its steps. A change that
# needs more of them says so here; one that needs fewer should lower the number.
STEP = {"fedavg": 57, "scaffold": 63, "fedprox": 105, "superfed_mm": 301}
ROUND = {"fedavg": 451, "scaffold": 611, "fedprox": 451, "superfed_mm": 544}
SPARE = 1.1  # versions of PyTorch take some operations apart in other ways


class Count(TorchDispatchMode):
    """Counts the operations of this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found[func.name().removeprefix("aten::").split(".")[0]] += 1
        return func(*args, **(kwargs or {}))

    @property
    def computing(self) -> int:
        """Those that are more than another look at a tensor."""
        return sum(n for name, n in self.found.items() if name not in VIEWS)


def operations(method: str, steps: int, *, traced: bool = False) -> int:
    """Those of the third round, in which every client takes so many steps."""
    task, _ = network_task("dense")
    data = federation(sizes=[12] * 6)
    counts = list[int]()
    for rounds in (1, 2, 3):  # what is remembered for all runs is made in the first
        with Count() as count:
            play(
                composed(task, data, method, rounds=4),
                data,
                rounds,
                batch_size=12 // steps,
                traced=traced,
            )
        counts.append(count.computing)
    return counts[2] - counts[1]


def uncounted(program: Any) -> Any:
    """The same without what it does in TorchScript's interpreter, in whichever thread."""

    def run(*args: Any) -> Any:
        with _disable_current_modes():
            return program(*args)

    return run


@pytest.mark.parametrize("method", STEP)
def test_operations_of_a_step_and_of_a_round(method: str) -> None:
    few, many = operations(method, 2), operations(method, 4)
    step = (many - few) / 2
    assert step <= SPARE * STEP[method]
    assert few - 2 * step <= SPARE * ROUND[method]


@pytest.mark.parametrize("method", STEP)
def test_traced_steps_are_no_operations_of_python(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many steps there are, one call of a program takes them all."""
    monkeypatch.setattr(Scripted, "__call__", uncounted(Scripted.__call__))
    assert operations(method, 2, traced=True) == operations(method, 4, traced=True)
