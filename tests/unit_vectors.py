"""Federations of unit vectors under linear networks: every prediction is known by hand."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unalike.federation.data import Examples, Federation
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import Experiment, assemble
from unalike.run.experiment.fit import fit

EYE = torch.eye(3)
SWAP = EYE[[1, 0, 2]]  # takes class 0 for class 1 and the other way round


def linear(weight: Tensor) -> nn.Linear:
    """Logits W x without bias: with W = 10 I an example of feature c is taken for class c."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight.clone()
    return layer


class Two(nn.Module):
    """A private body and a shared head, both linear."""

    head = ("top.",)

    def __init__(self) -> None:
        super().__init__()
        self.body = linear(EYE)
        self.top = linear(10 * EYE)

    def forward(self, x: Tensor) -> Tensor:
        return self.top(self.body(x))


def federation(rows: list[tuple[int, int, int, int]], n: int, new: int = 0, **more: Any):
    """Rows of (client, part, feature, label); a feature is a unit vector."""
    owner, part, feature, label = (np.array(c) for c in zip(*rows, strict=True))
    examples = Examples(EYE[torch.from_numpy(feature)], torch.from_numpy(label), 3, **more)
    return Federation(examples, owner, part.astype(np.int8), n, new)


def built(data: Federation, module: nn.Module, **settings: Any) -> Experiment:
    """An experiment that starts from the module's own weights."""
    config = parse({"run": {"init": "given"}, **settings})
    return assemble(config, data, fit(module, data.examples, "the model"))
