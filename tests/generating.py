"""What holds of every generator that is trained by FedAvg."""

from typing import Any

import pytest
import torch
from federations import composed, distance, federation, network_task, play, sampled
from torch import nn

from unalike import tree
from unalike.algorithms.generated import Generated
from unalike.errors import ConfigError
from unalike.network import Network
from unalike.parts.topology import Ring
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds
from unalike.tasks import Binary, MultiClass

SMALL: dict[str, Any] = {"latent": 4, "per_class": 2, "judge_epochs": 2}


def parameters(module: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(p.numel() for p in module.parameters())


def engines_agree(method: str) -> None:
    """On a star and on a ring, with some of the clients."""
    task, data = network_task("dense", torch.float64)
    for topology in ("star", Ring()):
        recipe = composed(task, data, (method, SMALL), topology=topology, **sampled(0.7))
        one, all_ = (play(recipe, data, 2, engine=e) for e in ("sequential", "vectorized"))
        assert distance(one.states[-1].stack.x, all_.states[-1].stack.x) < 1e-8


def is_judged_on_graphs(method: str) -> None:
    """A client by the classifier of its own server's examples, by either engine."""
    asked = {
        "rounds": 2,
        "data": "digits",
        "partition": {"name": "dirichlet", "clients": 4},
        "model": {"name": "mlp", "hidden": [16]},
        "method": {"name": method, **SMALL, "judge_epochs": 20},
        "evaluation": {"every": 2, "cross": 4, "select": "loss"},
        "topology": {"name": "ring"},
    }
    for engine in ("sequential", "vectorized"):
        made = experiment(parse({**asked, "engine": {"kind": engine}}))
        *_, last = rounds(made)
        assert last.clients is not None
        own, matrix = last.clients["local"]["loss"], last.clients["cross"]["values"]
        assert [matrix[i][i] for i in range(4)] == pytest.approx(own, abs=1e-6)
        assert len({tuple(row) for row in matrix}) > 1  # four servers, four classifiers


def engines_agree_on_images(method: str) -> None:
    """Of 32 pixels, with batch normalisation and dropout."""
    data = federation((1, 32, 32), (5, 9), dtype=torch.float64)
    net = nn.Sequential(nn.Flatten(), nn.Linear(1024, 3)).double()
    recipe = composed(MultiClass(Network(net)), data, (method, SMALL))
    one, all_ = (play(recipe, data, 1, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.x, all_.x) < 1e-6


def travels_whole_and_draws_every_class(method: str) -> None:
    """The generator goes down and its change up; examples are in [0, 1], as many of each class."""
    task, _ = network_task("dense", torch.float64)
    data = federation(sizes=(12,), dtype=torch.float64)
    played = play(composed(task, data, (method, SMALL)), data, 1)
    size = tree.size_bytes(played.x)
    assert played.rounds[0].traffic.down == size
    assert played.rounds[0].traffic.up == size + 8
    algorithm = played.loop.recipe.algorithm
    assert isinstance(algorithm, Generated)
    made = algorithm.synthetic(played.server)
    assert made.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert float(made.x.min()) >= 0
    assert float(made.x.max()) <= 1
    assert algorithm.products(played.server)["synthetic"]["x"].shape == (6, 1, 4, 4)


def refuses_what_it_cannot_draw(method: str) -> None:
    """Features beyond [0, 1], and tasks without classes, in one sentence each."""
    base = {"partition": {"name": "iid", "clients": 3}, "method": method}
    with pytest.raises(ConfigError, match=r"draws features in \[0, 1\] but those of the data go"):
        experiment(parse({**base, "data": {"name": "digits", "normalise": True}}))
    with pytest.raises(ConfigError, match="needs a multi-class task, this one is an autoencoder"):
        experiment(parse({**base, "model": {"name": "vae"}}))
    with pytest.raises(ConfigError, match="needs a multi-class task"):
        composed(Binary(Network(nn.Linear(2, 1))), federation((2,)), method)
