"""What is launched behind a call, before the host knows what came of it, on a CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from federations import Played, composed, dense, federation, play, same, sampled

from unalike import tree
from unalike.engine import loop
from unalike.engine.compiled.calls import Calls
from unalike.engine.simulation import vmapped
from unalike.engine.simulation.simulate import Simulation
from unalike.network import Network
from unalike.tasks import MultiClass
from unalike.tree import Tree


def played(
    monkeypatch: pytest.MonkeyPatch, *, ahead: bool, change: Callable[[Tree], Tree] | None = None
) -> Played:
    """Three rounds whose uploads are summed, as on a GPU or as they come."""
    task, data = MultiClass(Network(dense())), federation(sizes=[9] * 4)
    recipe = composed(task, data, "fedavg", rounds=3, **sampled(1.0, 2.0))
    prepare, client = Simulation.__init__, vmapped.client

    def prepared(self: Simulation, *args: Any, **options: Any) -> None:
        prepare(self, *args, **options)
        if ahead:
            self.calls = Calls(lambda body: body, torch.device("cpu"))

    def changed(*args: Any) -> Any:
        wire, stats, kept = client(*args)
        return (wire if change is None else change(wire)), stats, kept

    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "__init__", prepared)
        patch.setattr(vmapped, "client", changed)
        patch.setattr(loop, "HELD", 0)
        return play(recipe, data, 3, batch_size=3)


def alike(one: Played, two: Played) -> bool:
    told = [
        [(r.ids.tolist(), r.rejected, r.traffic, r.worked) for r in x.rounds] for x in (one, two)
    ]
    return told[0] == told[1] and same(one.states[-1].servers, two.states[-1].servers)


@pytest.fixture
def used(monkeypatch) -> list[bool]:
    """Whether a sum that was made beforehand was used, call by call."""
    found, settled = list[bool](), vmapped.Answers.settled

    def watched(self: vmapped.Answers, ahead: Any) -> vmapped.Answers:
        answers = settled(self, ahead)
        found.append(bool(answers.parts))
        return answers

    monkeypatch.setattr(vmapped.Answers, "settled", watched)
    return found


def test_sums_made_beforehand(used, monkeypatch):
    """Bit by bit those that are made of uploads as they come in."""
    plain = played(monkeypatch, ahead=False)
    assert alike(plain, played(monkeypatch, ahead=True))
    assert used == [False] * 3 + [True] * 3


@pytest.mark.parametrize("factor", [300.0, 1e30, float("nan")], ids=["long", "overflows", "nan"])
def test_a_sum_of_uploads_that_are_too_long_is_thrown_away(factor, used, monkeypatch):
    """Those of two clients of four; whether they count is the guard's to say."""

    def change(wire: Tree) -> Tree:
        odd = tree.leaves(wire)[0].flatten()[0] > 0
        return tree.map(lambda x: torch.where(odd, factor * x, x), wire)

    plain = played(monkeypatch, ahead=False, change=change)
    assert alike(plain, played(monkeypatch, ahead=True, change=change))
    assert not used[3], "in the first round"
