"""The CPU and a CUDA device give the same numbers, for both engines and every method."""

import pytest
import torch

from unalike import tree
from unalike.algorithms.table import METHODS
from unalike.run.build import experiment
from unalike.run.config import parse

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
CONFIG = {
    "rounds": 3,
    "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.5, "min_size": 20},
    "model": {"name": "two_cnn"},
    "local": {"epochs": 0.5, "batch_size": 8, "lr": 0.05},
}
SETTINGS = {
    "phase_shift": {"phases": 3},
    "fedaug": {"target": 0.2},
    "latent_disco": {"refresh": "every"},
}
MODELS = {"latent_disco": {"name": "vae", "hidden": [16]}}  # it measures an autoencoder's latents


def final(method: str, engine: str, device: str) -> torch.Tensor:
    raw = {
        **CONFIG,
        "model": MODELS.get(method, CONFIG["model"]),
        "method": {"name": method, **SETTINGS.get(method, {})},
        "engine": {"kind": engine, "device": device},
    }
    made = experiment(parse(raw))
    state = made.loop.begin(made.w)
    for t in range(CONFIG["rounds"]):
        state, _ = made.loop.advance(state, t)
    leaves = tree.leaves((state.servers, dict(sorted(made.simulation.kept.items()))))
    judged = made.evaluator(state)
    assert judged.spread["local"]["loss"]["clients"] == 6
    return torch.cat([x.flatten().double().cpu() for x in leaves])


# FedEvg turns the sign of a logit into a weight, so rounding noise near zero is not small there.
TOLERANCE = {"fedevg": 0.1}


@pytest.mark.parametrize("method", METHODS)
def test_cuda_equals_cpu(method):
    alone = final(method, "sequential", "cpu")
    for engine in ("sequential", "vectorized"):
        there = final(method, engine, "cuda")
        gap = torch.linalg.norm(alone - there) / torch.linalg.norm(alone)
        assert gap <= TOLERANCE.get(method, 1e-4), engine
