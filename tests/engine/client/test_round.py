"""A client's round is one function: the same in a thread, in a spawned process, at a site."""

import multiprocessing
import pickle
from typing import Any

import pytest
import torch
from federations import composed, network_task, play, same, sampled

from unalike import tree
from unalike.engine.client.round import Call, Keys, round_of

SETTINGS: dict[str, Any] = sampled(1.0, 1.5)


def _there(raw: bytes) -> bytes:
    """What a process does that was handed everything as bytes."""
    torch.set_num_threads(1)
    recipe, own, call, down, kept, seed = pickle.loads(raw)
    reply = round_of(recipe, own, call, down, kept, Keys.of(seed))
    return pickle.dumps({k: v.detach() for k, v in tree.named(reply).items()})


@pytest.fixture(scope="module")
def elsewhere() -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


@pytest.mark.parametrize(
    "name", ["fedavg", "scaffold", "superfed_mm", "aaggff_d", "fedaug", "fedevg", "local_dp"]
)
def test_a_spawned_process_plays_the_same_round(elsewhere: Any, name: str) -> None:
    task, data = network_task("dense")
    settings = {"fedevg": {"per_class": 2}, "local_dp": {"delta": 0.01}}.get(name, {})
    recipe = composed(task, data, (name, settings), **SETTINGS)
    played = play(recipe, data, 1, engine="sequential")
    sim, loop = played.simulation, played.loop
    down = tree.row(loop.downs(played.states[-1]), 0)
    whole = sim.own(3)
    rows = whole.order  # a site has its own rows and nobody else's
    own = whole._replace(x=whole.x[rows], y=whole.y[rows], order=torch.arange(len(rows)))
    kept = sim.states.get(torch.tensor([3]))
    kept = tree.row(kept, 0) if tree.leaves(kept) else kept
    args = (loop.recipe, own, Call(1, 0, True, 1.5), down, kept)
    raw = elsewhere.apply(_there, (pickle.dumps((*args, 0)),))
    here = round_of(*args, Keys.of(0))
    there = pickle.loads(raw)
    assert same({"": tree.named(here)}, {"": there})
