"""FedEvg on linear tasks, for its tests."""

from dataclasses import fields
from typing import Any

from torch import nn

from unalike.algorithms.fedevg import FedEvg
from unalike.network import Network
from unalike.parts.generation.energy import Energy
from unalike.parts.generation.langevin import Langevin
from unalike.tasks import MultiClass, Task


def linear_task(features: int = 2, classes: int = 2) -> Task:
    """Logits that are a linear function of the features."""
    return MultiClass(Network(nn.Linear(features, classes).double()))


def made(
    task: MultiClass, classes: int, rounds: int, shape: tuple[int, ...] = (2,), **settings: Any
) -> FedEvg:
    """The method with some settings of either half."""

    def taken(record: type) -> dict[str, Any]:
        return {f.name: settings.pop(f.name) for f in fields(record) if f.name in settings}

    energy, walk = Energy(task, **taken(Energy)), Langevin(rounds, **taken(Langevin))
    return FedEvg(task, energy, walk, shape, classes, **settings)
