"""First states: those of each client alone, bit for bit, whoever else is in the cohort."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from federations import composed, network_task, same

from unalike import channel, rng, tree
from unalike.algorithm import Algorithm
from unalike.engine.client import beginning
from unalike.engine.client.beginning import Beginning
from unalike.recipe import Kept, Recipe
from unalike.rng import Key
from unalike.tree import Params, Tree

ROOT = rng.stream(3, "init")
METHODS: dict[str, tuple[Any, ...]] = {
    "superfed_mm": ("superfed_mm",),
    "superfed_lm": ("superfed_lm",),
    "scaffold": ("scaffold",),
    "ditto": ("ditto",),
    "apfl": ("apfl",),
    "feddyn": ("feddyn",),
    "fedbn": ("fedbn",),
    "phase_shift": ("phase_shift",),
    "superfed_mm+topk": ("superfed_mm", "topk"),
}


def made(*methods: Any, network: str = "still") -> tuple[Recipe, Params]:
    task, data = network_task(network)
    return composed(task, data, *methods), task.init(rng.key(0))


def alone(recipe: Recipe, w: Params, i: int) -> Kept:
    """As a site makes its own."""
    algorithm = recipe.algorithm
    up = algorithm.upload_like(algorithm.broadcast(algorithm.server_init(w, rng.key(0))))
    mine = algorithm.client_init(w, rng.fold_in(ROOT, i))
    return Kept(mine, channel.begin(recipe.channel, up))


@pytest.mark.parametrize("methods", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("ids", [[4], [0, 1], [7, 100_000, 2, 0, 5]], ids=len)
def test_every_client_as_if_alone(methods: tuple[Any, ...], ids: list[int]) -> None:
    recipe, w = made(*methods)
    found = Beginning(recipe, w, ROOT)(torch.tensor(ids))
    assert same(found, tree.stack([alone(recipe, w, i) for i in ids]))


def test_also_in_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, w = made("superfed_mm", network="dense")
    ids = torch.arange(9)
    whole = Beginning(recipe, w, ROOT)(ids)
    monkeypatch.setattr(beginning, "AT_ONCE_BYTES", 4 * tree.size_bytes(w))
    assert same(Beginning(recipe, w, ROOT)(ids), whole)


def test_nothing_is_kept_of_the_model_that_all_began_with() -> None:
    recipe, w = made("ditto")
    for n in (1, 2):
        for leaf in tree.leaves(Beginning(recipe, w, ROOT)(torch.arange(n))):
            leaf.fill_(7)
    assert same(w, made("ditto")[1])


@dataclass(frozen=True)
class Counted:
    """A method whose ``client_init`` is watched, and may insist on a number for a key."""

    base: Algorithm
    calls: list[int]
    insists: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def client_init(self, w: Params, key: Key) -> Tree:
        """As the method does."""
        self.calls.append(1)
        if self.insists:
            key = rng.key(int(key) % 1000)
        return self.base.client_init(w, key)


def watched(insists: bool) -> tuple[Beginning, list[int]]:
    recipe, w = made("superfed_mm")
    calls = list[int]()
    algorithm: Any = Counted(recipe.algorithm, calls, insists)
    return Beginning(replace(recipe, algorithm=algorithm), w, ROOT), calls


def test_a_cohort_takes_one_call() -> None:
    first, calls = watched(insists=False)
    first(torch.arange(2))
    calls.clear()
    first(torch.arange(50))
    assert len(calls) == 1


def test_what_cannot_be_mapped_is_made_one_by_one() -> None:
    first, calls = watched(insists=True)
    ids = torch.tensor([3, 1, 2])
    found = first(ids)
    assert same(found, tree.stack([tree.row(first(i[None]), 0) for i in ids]))
    calls.clear()
    first(ids)
    assert len(calls) == 3
