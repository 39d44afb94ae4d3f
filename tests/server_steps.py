"""How a server's optimizer moves a two-dimensional model, with its state kept in between."""

import torch
from federations import Handmade, cohort

from unalike import rng
from unalike.algorithms.fedavg import FedAvg, Up
from unalike.parts.optim import Optimizer
from unalike.uploads import Stacked

FIRST, SECOND = (0.3, -0.02), (0.1, 0.05)


def increments(server_opt: Optimizer, *deltas: tuple[float, float]) -> list[list[float]]:
    """How the server's model moves when the clients' mean difference is so and so."""
    algorithm = FedAvg(Handmade(), server_opt=server_opt)
    state = algorithm.server_init({"w": torch.zeros(2, dtype=torch.float64)}, rng.key(0))
    moved = []
    for delta in deltas:
        one = torch.tensor([delta, delta], dtype=torch.float64)  # two clients that agree
        before = state.x["w"]
        p = torch.tensor([0.25, 0.75])
        state = algorithm.server(state, Stacked(Up({"w": one})), p, cohort([1, 3]))
        moved.append((state.x["w"] - before).tolist())
    return moved
