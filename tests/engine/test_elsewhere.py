"""Runs on another device than the CPU: nothing is left behind there, and the numbers are the same.

The device is a pretended one (``elsewhere.py``), so that a tensor which is made on the CPU and
meets the clients' is found on any machine. Methods alone are tried on a real device
(``test_gpu.py``); here are combinations, codecs, graphs, clocks and lies.
"""

from typing import Any

import pytest
import torch
from elsewhere import ELSEWHERE, brought, elsewhere
from federations import Named, composed, distance, federation, network_task, play, sampled, walk

from unalike import channel, rng, tree
from unalike.engine.attacks import AttackedTransport, ModelReplacement, Noise
from unalike.parts.clock import CUSTOMARY
from unalike.parts.compression.codec import Compressed
from unalike.parts.compression.select import RandomMask, TopK
from unalike.parts.compression.values import EightBit, Sign
from unalike.parts.optim import Adam, Sgd
from unalike.parts.topology import Clusters, Exponential, Ring, Rotating
from unalike.recipe import Stage

TASK, _ = network_task("dense", torch.float64)
DATA = federation(sizes=(5, 9, 12, 7, 8), dtype=torch.float64)
CLOCK = {"clock": CUSTOMARY}
HALF = sampled(0.5)
MOMENTUM = {"opt": Sgd(0.05, 0.9)}
BUFFER = ("fedbuff", {"buffer": 2, "concurrency": 3})
PHASES = ("phase_shift", {"phases": 2})
BOTH = {"direction": "both"}
MASK = ("random_mask", {"share": 0.3})

RUNS: dict[str, tuple[tuple[Named, ...], dict[str, Any]]] = {
    "phases of fednova": ((PHASES, "fednova"), MOMENTUM),
    "phases of adam, compressed": ((PHASES, "topk"), {"opt": Adam(0.01)}),
    "phases of superfed": ((PHASES, ("superfed_mm", {"start": 0.0})), {}),
    "masks under a clock": ((MASK,), CLOCK),
    "masks of tiers, both ways": ((("tifl", {"tiers": 2}), ("random_mask", BOTH)), HALF),
    "masks of what is clipped": (("norm_clip", MASK), {}),
    "masks, asynchronous": ((BUFFER, MASK), {}),
    "masks on a ring": ((MASK,), {"topology": Ring(), **CLOCK}),
    "masks of gradient tracking": (("scaffold", MASK), {"topology": Ring()}),
    "signs of large entries, both ways": ((("stc", BOTH),), HALF),
    "signs, asynchronous": ((BUFFER, "sign"), {}),
    "bytes on a graph": (("eight_bit",), {"topology": Exponential(weights="rule")}),
    "lost links": ((), {"topology": Ring(weights="metropolis", link_loss=0.4)}),
    "a changing proximal term of edge servers": (
        (("fedprox", {"adaptive": True}), "fedadam"),
        {"topology": Clusters(2), **CLOCK},
    ),
    "a moving server": (("scaffold", "fedep"), {"topology": Rotating(), **CLOCK}),
    "filled classes": ((("fedaug", {"target": 0.1}), "feddisco"), {}),
    "weights that learn": (("aaggff_d", "fedprox"), HALF),
}


def numbers(played: Any) -> Any:
    """What servers and clients hold in the end."""
    return brought((played.states[-1].stack, dict(sorted(played.kept[-1].items()))))


@pytest.mark.filterwarnings("ignore:fedaug leaves")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_elsewhere_is_that_of_the_cpu(name: str) -> None:
    methods, parts = RUNS[name]
    recipe, w = composed(TASK, DATA, *methods, **parts), TASK.init(rng.key(7))
    here = numbers(play(recipe, DATA, 2, w))
    with elsewhere() as device:
        there = play(recipe, DATA, 2, tree.to(w, device), device=device)
        assert all(x.device == device for x in there.x.values())
    assert distance(here, numbers(there)) < 1e-12


@pytest.mark.parametrize("attack", [Noise(number=2), ModelReplacement(number=2)], ids=str)
@pytest.mark.parametrize("method", [MASK, "stc", "eight_bit"], ids=str)
def test_lies_elsewhere(attack: Any, method: Named) -> None:
    """A lie is compressed like an honest answer, and drawn where that is."""
    recipe = composed(TASK, DATA, method)

    def around(simulation: Any) -> AttackedTransport:
        return AttackedTransport(simulation, attack, torch.tensor([1, 3]), 0)

    w, program = TASK.init(rng.key(7)), (Stage(recipe, 2),)
    here = walk(program, DATA, w=w, around=around)
    with elsewhere() as device:
        there = walk(program, DATA, w=tree.to(w, device), around=around, device=device)
    assert distance(here.states[-1].stack, brought(there.states[-1].stack)) < 1e-12


CODECS = [
    Compressed(select, values, feedback=True)
    for select in (None, RandomMask(0.3), TopK(0.3), TopK(0.3, "golomb"))
    for values in (None, Sign(), EightBit())
    if select or values
]


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_a_template_is_where_the_upload_is(codec: Compressed) -> None:
    up = {"a": torch.zeros(3, 4), "n": torch.tensor(7), "b": torch.ones(5)}
    with elsewhere() as device:
        form = channel.wire_like((codec, codec), tree.to(up, device))
        assert {x.device for x in tree.leaves(form)} == {ELSEWHERE}


def test_devices_do_not_meet() -> None:
    """The pretended device refuses what a real one refuses."""
    with elsewhere() as device:
        there, here = torch.ones(3, device=device), torch.ones(3)
        with pytest.raises(RuntimeError, match="add"):
            there + here
        with pytest.raises(RuntimeError, match="stack"):
            torch.stack([there[0], here[0]])
        assert (there * here[0]).tolist() == [1.0, 1.0, 1.0]  # a constant
        assert there.cpu().device.type == "cpu"
