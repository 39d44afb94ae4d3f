"""A round uses the memory that the one before it freed: pages that are new to it are counted."""

import subprocess
import sys
from pathlib import Path

import pytest

# A process of its own: what the C library was told before, or has in stock, is part of the count.
COUNTED = """
import resource
import torch
from federations import composed, federation, play, sampled
from unalike.models import MODELS
from unalike.network import Network
from unalike.run.experiment.device import prepare
from unalike.tasks import MultiClass

prepare(torch.device("cpu"), tf32=False)
torch.set_num_threads(1)
task = MultiClass(Network(MODELS["mlp"](hidden=[300, 300]).build((1, 4, 4), 4)))
data = federation(sizes=[4] * 100)
recipe = composed(task, data, "fedavg", topology="ring", **sampled(1.0))
played, found = play(recipe, data, 1, traced=True, workers=2), []
loop, state = played.loop, played.states[-1]
del played
for t in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    state, _ = loop.advance(state, t)
    found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(found[3:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="about the C library of Linux")
def test_a_round_uses_the_memory_of_the_one_before() -> None:
    tests = Path(__file__).parents[2]
    pages = int(subprocess.check_output([sys.executable, "-c", COUNTED], text=True, cwd=tests))
    assert pages < 1000  # 26,000 if the library is left to itself
