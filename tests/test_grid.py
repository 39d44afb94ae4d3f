"""Methods, what goes around them, who talks to whom: every cell of the grid runs or says why not.

Six methods that train or weigh, and SCAFFOLD; four parts that change when, on what and how small;
four topologies. A cell that runs gives the same on both engines, and each of its two methods is
missed if it is left out.
"""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from federations import Data, Named, Played, composed, federation, play
from torch import nn

from unalike.errors import ConfigError
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.topology import Clusters, Ring, Rotating, Star, Topology
from unalike.tasks import MultiClass

ROUNDS, CLIENTS = 3, 6
METHODS: dict[str, dict[str, Any]] = {
    "fedprox": {"mu": 2.0},
    "scaffold": {},
    "fedadam": {},
    "aaggff_s": {},
    "superfed_mm": {"start": 0.0},
    "lg_fedavg": {},
    "feddisco": {},
}
PARTS: dict[str, dict[str, Any]] = {
    "phase_shift": {"phases": 2},
    "fedaug": {"target": 0.001},
    "topk": {"share": 0.3},
    "eight_bit": {"feedback": True},
}
TOPOLOGIES: dict[str, Topology] = {
    "star": Star(),
    "ring": Ring(),
    "rotating": Rotating(),
    "clusters": Clusters(2, 2),
}
# Why a cell is refused, by who refuses: every refusal of the grid is one of these.
REASONS = {
    ("aaggff_s", "clusters"): "one learner of the weights",
    ("aaggff_s", "phase_shift"): "every loss in every round",
    ("scaffold", "clusters"): "control variates",
    ("phase_shift", "ring"): "examples behind the newest model",
    ("phase_shift", "clusters"): "examples behind the newest model",
}
GRID = list(product(METHODS, PARTS, TOPOLOGIES))
RUNS = [(m, p, t) for m, p, t in GRID if not {(m, t), (p, t), (m, p)} & REASONS.keys()]


def _net() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))
    net.head = ("3.",)  # type: ignore[assignment]
    return net


TASK = MultiClass(Network(_net().double()))
DATA: Data = federation((1, 2, 2), [3 + i for i in range(CLIENTS)], dtype=torch.float64)


def run(topology: str, *methods: Named, engine: Any = "sequential") -> Played:
    parts = {"topology": TOPOLOGIES[topology], "rounds": ROUNDS, "opt": Sgd(0.3)}
    recipe = composed(TASK, DATA, *methods, **parts)
    return play(recipe, DATA, ROUNDS, batch_size=4, engine=engine)


def numbers(played: Played) -> dict[str, np.ndarray]:
    """What all servers hold in the end."""
    return {name: leaf.numpy() for name, leaf in played.states[-1].stack.x.items()}


def apart(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """The largest difference of a number that both have."""
    return max(float(np.abs(a[k] - b[k]).max()) for k in a.keys() & b.keys())


@cache
def alone(topology: str, name: str) -> dict[str, np.ndarray]:
    return numbers(run(topology, (name, {**METHODS, **PARTS}[name])))


def test_most_of_the_grid_runs() -> None:
    assert len(GRID) == 7 * 4 * 4
    assert len(RUNS) == 90


@pytest.mark.parametrize(("method", "part", "topology"), RUNS)
def test_a_cell(method: str, part: str, topology: str) -> None:
    """Both act, and both engines agree."""
    cell = (method, METHODS[method]), (part, PARTS[part])
    both, many = (numbers(run(topology, *cell, engine=e)) for e in ("sequential", "vectorized"))
    assert all(np.isfinite(x).all() for x in both.values())
    assert apart(both, many) < 1e-9
    assert apart(both, alone(topology, method)) > 1e-9, f"'{part}' does nothing"
    assert apart(both, alone(topology, part)) > 1e-9, f"'{method}' does nothing"


@pytest.mark.parametrize(("method", "part", "topology"), [c for c in GRID if c not in RUNS])
def test_a_refused_cell_says_why(method: str, part: str, topology: str) -> None:
    """In one sentence, by whoever cannot live with the other."""
    with pytest.raises(ConfigError) as error:
        run(topology, (method, METHODS[method]), (part, PARTS[part]))
    said = str(error.value)
    met = {(method, topology), (part, topology), (method, part)} & REASONS.keys()
    assert any(REASONS[pair] in said and pair[0] in said for pair in met)
    assert said.endswith(".")
    assert "\n" not in said
