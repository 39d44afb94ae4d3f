"""Which engine computes the clients, and why."""

import math
from typing import NamedTuple

import numpy as np
import torch

from unalike import rng
from unalike.batches import Batches, Draw, Extent
from unalike.engine.simulate import Engine
from unalike.engine.traced import Traced
from unalike.errors import ConfigError
from unalike.federation.data import TRAIN, Examples, Federation
from unalike.parts.descent import Loss, descend
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation
from unalike.run.config import Config
from unalike.run.fit import refusal_of_vmap
from unalike.tasks import Task

ENOUGH = 500  # local steps of a run; tracing one takes as long as hundreds

# Milliseconds on two cores, of rounds of the 2NN and of small perceptrons (benchmarks/engines.py).
CLIENT, STEP, WEIGHT = 0.7, 0.03, 0.5e-6  # one by one: a client, a step, a weight in a step
CALL, TOGETHER = 3.0, 4.2e-6  # in one call: a step of all, a weight in a step of a client


class Choice(NamedTuple):
    """How clients are computed."""

    engine: Engine
    why: str
    traced: bool = False  # whether local steps are traced, on a CPU and one client at a time


def engine(config: Config, made: Task, data: Federation, on: torch.device) -> Choice:
    """What is set; 'auto' takes what should be faster."""
    kind, cpu = config.engine.kind, on.type == "cpu"
    untraced = "" if cpu and _worth_tracing(config, data) else "off"
    if kind == "sequential" or (kind == "auto" and cpu and not made.network.dense):
        convolutions = "convolutions and recurrent layers are faster this way on a CPU"
        return _alone(made, data.examples, "as set" if kind != "auto" else convolutions, untraced)
    if kind == "auto" and cpu and not untraced and not _small(config, made, data):
        untraced = refusal_of_tracing(made, data.examples)
        if not untraced:
            return Choice("sequential", "its steps are traced and need no Python on a CPU", True)
    why = refusal_of_vmap(made, data.examples)
    if why and kind == "vectorized":
        raise ConfigError(
            f"the model cannot be vectorized over clients ({why}); set engine.kind = 'sequential'."
        )
    if why:
        return _alone(made, data.examples, f"the model cannot be vectorized: {why}", untraced)
    if kind == "vectorized":
        return Choice(kind, "as set")
    together = "clients have little to do each, and matrix products batch well"
    return Choice("vectorized", together if cpu else "many clients fill a GPU")


def _alone(made: Task, examples: Examples, why: str, untraced: str) -> Choice:
    """One client at a time, with traced steps where nothing speaks against it."""
    found = untraced or refusal_of_tracing(made, examples)
    if found and found != "off":
        why = f"{why}; its steps cannot be traced: {found}"
    return Choice("sequential", why, not found)


def _worth_tracing(config: Config, data: Federation) -> bool:
    """Whether a run has so many local steps that tracing one is soon paid back.

    By the configuration alone, so that a resumed run computes as it did before.
    """
    return config.engine.traced and config.rounds * _steps(config, data)[1] >= ENOUGH


def _steps(config: Config, data: Federation) -> tuple[float, float]:
    """(the most steps that a client has in a round, those of all in a round)."""
    sizes = data.sizes(TRAIN)[: data.n_clients]
    each = np.ceil(sizes * config.local.epochs / config.local.batch_size)
    participation = Participation(config.participation.fraction, config.participation.number)
    n = participation.count(len(sizes))
    return float(each.max()), n * float(each.mean())


def _small(config: Config, made: Task, data: Federation) -> bool:
    """Whether clients have so little to do that one call for many is faster than one for each."""
    most, steps = _steps(config, data)
    participation = Participation(config.participation.fraction, config.participation.number)
    n, w = participation.count(data.n_clients), made.network.given()
    weights = sum(math.prod(w[name].shape) for name in made.network.weights)
    alone = n * CLIENT + steps * (STEP + WEIGHT * weights)
    return most * CALL + steps * TOGETHER * weights < alone


def refusal_of_tracing(made: Task, examples: Examples) -> str:
    """Why a step of plain training cannot be traced; empty if it can."""
    row, real = torch.arange(2)[None], torch.ones(1, 2, dtype=torch.bool)
    draw = Draw(row, real, ~real, torch.zeros(1, dtype=torch.int64))
    traced = Traced(said=False)
    extent = Extent(np.ones((1, 1), dtype=np.int64), (2,))
    x, y = examples.x[:2], examples.y[:2]
    data = Batches(x, y, draw, rng.key(0), extent, repeat=traced)
    if made.network.seeds_global:
        return "it draws from PyTorch's generator"
    descend(Loss(made), Sgd(0.1), *made.split(made.network.given()), data, torch.tensor(1.0))
    return next(iter(traced.refusals), "")
